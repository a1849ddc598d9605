// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch/rank_streams.h"

#include "cuda/launch/launch_count.h"

namespace flashscan::cuda {
namespace {

constexpr const char* doing = "ordering messages between ranks";
// The places of events.
constexpr size_t forked = 0, joined = 1, first_group = 4;

// While launches are counted nothing is enqueued.
void record(cudaEvent_t event, void* stream) {
    if (!is_counting_launches()) check(cudaEventRecord(event, static_cast<cudaStream_t>(stream)), doing);
}
void wait(cudaEvent_t event, void* stream) {
    if (!is_counting_launches()) check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), event, 0), doing);
}

}  // namespace

RankStreams::RankStreams(int device, size_t groups, bool both_ways) : device_(device), both_ways_(both_ways) {
    const DeviceScope scope(device);
    const RelaxedCapture relaxed;
    try {
        // Blocks of messages go before those of groups, which would keep them waiting.
        int least = 0, greatest = 0;
        check(cudaDeviceGetStreamPriorityRange(&least, &greatest), doing);
        for (size_t i = 0; i < 2; ++i)
            check(cudaStreamCreateWithPriority(&streams_[i], cudaStreamNonBlocking, greatest), doing);
        check(cudaStreamCreateWithFlags(&streams_[2], cudaStreamNonBlocking), doing);
        const size_t count = first_group + 2 * groups;
        events_.reserve(count);
        for (size_t i = 0; i < count; ++i) {
            cudaEvent_t event = nullptr;
            check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), doing);
            events_.push_back(event);
        }
    } catch (...) {
        release();
        throw;
    }
}

RankStreams::~RankStreams() {
    release_on(device_, [this] { release(); });
}

void RankStreams::release() noexcept {
    for (cudaEvent_t event : events_) succeeds(cudaEventDestroy(event));
    for (cudaStream_t stream : streams_)
        if (stream != nullptr) succeeds(cudaStreamDestroy(stream));
}

RankStreams::Fork::Fork(const RankStreams& streams, void* stream) : streams_(streams), stream_(stream) {
    record(streams_.events_[forked], stream_);
    for (cudaStream_t other : streams_.streams_) wait(streams_.events_[forked], other);
}
RankStreams::Fork::~Fork() {
    if (joined_) return;
    try {
        join();
    } catch (...) {  // what fails now has failed before, and that is what the call reports
    }
}
void RankStreams::Fork::join() {
    joined_ = true;
    for (size_t i = 0; i < streams_.streams_.size(); ++i) {
        record(streams_.events_[joined + i], streams_.streams_[i]);
        wait(streams_.events_[joined + i], stream_);
    }
}
void RankStreams::arrived(size_t k) const { record(events_[first_group + 2 * k], incoming()); }
void RankStreams::wait_for(size_t k, void* stream) const { wait(events_[first_group + 2 * k], stream); }
void RankStreams::follow(size_t k, void* stream) const {
    record(events_[first_group + 2 * k + 1], stream);
    wait(events_[first_group + 2 * k + 1], outgoing());
}

}  // namespace flashscan::cuda
