// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch/message_stream.h"

#include "cuda/launch/launch_count.h"

namespace flashscan::cuda {
namespace {

constexpr const char* doing = "ordering messages between ranks";

// While launches are counted nothing is enqueued.
void record(cudaEvent_t event, void* stream) {
    if (!is_counting_launches()) check(cudaEventRecord(event, static_cast<cudaStream_t>(stream)), doing);
}
void wait(cudaEvent_t event, void* stream) {
    if (!is_counting_launches()) check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), event, 0), doing);
}

}  // namespace

MessageStream::MessageStream(int device, size_t groups) : device_(device) {
    const DeviceScope scope(device);
    const RelaxedCapture relaxed;
    try {
        // Blocks of its kernels go before those of the call, which would keep them waiting.
        int least = 0, greatest = 0;
        check(cudaDeviceGetStreamPriorityRange(&least, &greatest), doing);
        check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), doing);
        events_.reserve(2 + 2 * groups);
        for (size_t i = 0; i < 2 + 2 * groups; ++i) {
            cudaEvent_t event = nullptr;
            check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), doing);
            events_.push_back(event);
        }
    } catch (...) {
        release();
        throw;
    }
}

MessageStream::~MessageStream() {
    release_on(device_, [this] { release(); });
}

void MessageStream::release() noexcept {
    for (cudaEvent_t event : events_) succeeds(cudaEventDestroy(event));
    if (stream_ != nullptr) succeeds(cudaStreamDestroy(stream_));
}

MessageStream::Fork::Fork(const MessageStream& messages, void* stream) : messages_(messages), stream_(stream) {
    record(messages_.events_[0], stream_);
    wait(messages_.events_[0], messages_.stream_);
}
MessageStream::Fork::~Fork() {
    if (joined_) return;
    try {
        join();
    } catch (...) {  // what fails now has failed before, and that is what the call reports
    }
}
void MessageStream::Fork::join() {
    joined_ = true;
    record(messages_.events_[1], messages_.stream_);
    wait(messages_.events_[1], stream_);
}
void MessageStream::arrived(size_t k) const { record(events_[2 + 2 * k], stream_); }
void MessageStream::wait_for(size_t k, void* stream) const { wait(events_[2 + 2 * k], stream); }
void MessageStream::follow(size_t k, void* stream) const {
    record(events_[3 + 2 * k], stream);
    wait(events_[3 + 2 * k], stream_);
}

}  // namespace flashscan::cuda
