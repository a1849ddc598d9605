// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch/rank_link.h"

#include <algorithm>

#include "cuda/launch/launch_count.h"
#include "cuda/loader/nccl.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

void check_callback(const Communicator& ranks, int32_t status, const char* which, size_t bytes) {
    if (status != 0)
        fail(Code::callback_failed, "communicator.{} returned {} to rank {} of {}, for {} bytes", which, status,
             ranks.rank, ranks.size, bytes);
}

// Returns whether launches are only being counted, so that a message must not be sent. It then counts a message through
// NCCL as a launch; what a callback enqueues is not counted.
bool is_only_counted(const Communicator& ranks) {
    return ranks.nccl == nullptr ? is_counting_launches() : counts_launch();
}

constexpr const char* exchanging = "exchanging notes of a plan between ranks";
constexpr size_t neighbour_bytes = 64;  // of a message of connect_neighbours

// Lets NCCL connect neighbouring ranks while a plan is made, since it connects them at their first message: each rank
// sends bytes without a meaning to the next one, and then to the one before. `memory` has neighbour_bytes for both
// directions.
void connect_neighbours(const Communicator& ranks, char* memory, cudaStream_t stream) {
    constexpr const char* doing = "connecting neighbouring ranks";
    const NcclFunctions& nccl = *ranks.nccl;
    for (const int32_t step : {1, -1}) {
        const int32_t to = ranks.rank + step, from = ranks.rank - step;
        check_nccl(ranks, nccl.group_start(), doing);
        int result = 0;
        if (to >= 0 && to < ranks.size) result = nccl.send(memory, neighbour_bytes, nccl_bytes, to, ranks.user, stream);
        if (result == 0 && from >= 0 && from < ranks.size)
            result = nccl.receive(memory + neighbour_bytes, neighbour_bytes, nccl_bytes, from, ranks.user, stream);
        const int ended = nccl.group_end();
        check_nccl(ranks, result != 0 ? result : ended, doing);
    }
}

}  // namespace

bool can_send(const Communicator& ranks) { return ranks.nccl != nullptr || ranks.send != nullptr; }

void gather(const Communicator& ranks, const void* from, void* to, size_t bytes, void* stream) {
    if (is_only_counted(ranks)) return;
    if (ranks.nccl == nullptr)
        return check_callback(ranks, ranks.all_gather(ranks.user, from, to, bytes, stream), "all_gather", bytes);
    check_nccl(ranks, ranks.nccl->all_gather(from, to, bytes, nccl_bytes, ranks.user, stream),
               "gathering from all ranks");
}

void send(const Communicator& ranks, const void* data, size_t bytes, int32_t to, void* stream) {
    if (is_only_counted(ranks)) return;
    if (ranks.nccl == nullptr)
        return check_callback(ranks, ranks.send(ranks.user, data, bytes, to, stream), "send", bytes);
    check_nccl(ranks, ranks.nccl->send(data, bytes, nccl_bytes, to, ranks.user, stream), "sending to the next rank");
}

void receive(const Communicator& ranks, void* data, size_t bytes, int32_t from, void* stream) {
    if (is_only_counted(ranks)) return;
    if (ranks.nccl == nullptr)
        return check_callback(ranks, ranks.receive(ranks.user, data, bytes, from, stream), "receive", bytes);
    check_nccl(ranks, ranks.nccl->receive(data, bytes, nccl_bytes, from, ranks.user, stream),
               "receiving from the rank before");
}

void gather_on_host(const Communicator& ranks, const void* from, void* to, size_t bytes, int device) {
    if (ranks.nccl == nullptr)
        return check_callback(ranks, ranks.all_gather(ranks.user, from, to, bytes, nullptr), "all_gather", bytes);
    const DeviceScope scope(device);
    const RelaxedCapture relaxed;
    StagedGather(ranks, bytes).gather(from, to, bytes);
}

StagedGather::StagedGather(const Communicator& ranks, size_t most_bytes) : ranks_(ranks) {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), exchanging);
    const size_t all = most_bytes * (static_cast<size_t>(ranks.size) + 1);
    const cudaError_t result = cudaMalloc(&memory_, std::max(all, 2 * neighbour_bytes));
    if (result != cudaSuccess) succeeds(cudaStreamDestroy(stream));
    check(result, exchanging);
    stream_ = stream;
}

StagedGather::~StagedGather() {
    succeeds(cudaFree(memory_));
    succeeds(cudaStreamDestroy(static_cast<cudaStream_t>(stream_)));
}

void StagedGather::gather(const void* from, void* to, size_t bytes) const {
    const auto stream = static_cast<cudaStream_t>(stream_);
    char *mine = static_cast<char*>(memory_), *theirs = mine + bytes;
    check(cudaMemcpyAsync(mine, from, bytes, cudaMemcpyHostToDevice, stream), exchanging);
    cuda::gather(ranks_, mine, theirs, bytes, stream);
    check(cudaMemcpyAsync(to, theirs, bytes * static_cast<size_t>(ranks_.size), cudaMemcpyDeviceToHost, stream),
          exchanging);
    connect_neighbours(ranks_, mine, stream);
    check(cudaStreamSynchronize(stream), exchanging);
}

void connect(Options& options) {
    Communicator& ranks = options.communicator;
    if (!ranks.nccl_handle) return;
    if (ranks.nccl == nullptr) ranks.nccl = loaded_nccl();
    const int32_t given_size = ranks.size, given_rank = ranks.rank;
    int device = 0;
    check_nccl(ranks, ranks.nccl->comm_count(ranks.user, &ranks.size), "asking a communicator for its size");
    check_nccl(ranks, ranks.nccl->comm_rank(ranks.user, &ranks.rank), "asking a communicator for its rank");
    check_nccl(ranks, ranks.nccl->comm_device(ranks.user, &device), "asking a communicator for its device");
    if (given_size != 0 && (given_size != ranks.size || given_rank != ranks.rank))
        fail(Code::invalid_argument, "communicator has rank {} and size {}; those of the ncclComm_t are {} and {}",
             given_rank, given_size, ranks.rank, ranks.size);
    if (device != options.device)
        fail(Code::invalid_argument, "device is {}, and that of the ncclComm_t is {}", options.device, device);
}

}  // namespace flashscan::cuda
