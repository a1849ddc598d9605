// SPDX-License-Identifier: Apache-2.0
// Streams of 16-byte vectors: what the card's memory gives to a kernel that computes nothing to speak of.
#include <cuda_runtime.h>

#include <algorithm>

#include "stream.h"

namespace bench {
namespace {

template <bool Streaming>
__device__ uint4 load(const uint4* from) {
    if constexpr (Streaming) return __ldcs(from);
    return *from;
}

template <bool Streaming>
__device__ void store_vector(uint4* to, uint4 value) {
    if constexpr (Streaming)
        __stcs(to, value);
    else
        *to = value;
}

__global__ void nothing_kernel() {}

__device__ uint4 mix(uint4 a, uint4 b) { return {a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w}; }

struct Vectors {
    const uint4* __restrict__ read0;
    const uint4* __restrict__ read1;
    const uint4* __restrict__ read2;
    uint4* __restrict__ write0;
    uint4* __restrict__ write1;
    int64_t count;
};

// Moves Unroll vectors of each array, blockDim apart: all of the loads before the first store.
template <bool Backward, int Unroll, bool Streaming>
__device__ void move(const Vectors& v, int64_t first) {
    uint4 a[Unroll], b[Unroll], c[Unroll];
#pragma unroll
    for (int i = 0; i < Unroll; ++i) {
        const int64_t at = first + static_cast<int64_t>(i) * blockDim.x;
        a[i] = load<Streaming>(v.read0 + at);
        b[i] = load<Streaming>(v.read1 + at);
        if constexpr (Backward) c[i] = load<Streaming>(v.read2 + at);
    }
#pragma unroll
    for (int i = 0; i < Unroll; ++i) {
        const int64_t at = first + static_cast<int64_t>(i) * blockDim.x;
        store_vector<Streaming>(v.write0 + at, mix(a[i], b[i]));
        if constexpr (Backward) store_vector<Streaming>(v.write1 + at, mix(a[i], c[i]));
    }
}

// A block takes Unroll * blockDim consecutive vectors at a time; where the arrays end, a thread takes them one by one.
template <bool Backward, int Unroll, bool Streaming>
__global__ void stream_kernel(const Vectors v) {
    const int64_t share = static_cast<int64_t>(blockDim.x) * Unroll;
    for (int64_t begin = blockIdx.x * share; begin < v.count; begin += gridDim.x * share) {
        if (begin + share <= v.count)
            move<Backward, Unroll, Streaming>(v, begin + threadIdx.x);
        else
            for (int64_t at = begin + threadIdx.x; at < v.count; at += blockDim.x) move<Backward, 1, Streaming>(v, at);
    }
}

using Kernel = void (*)(Vectors);

template <bool Backward, bool Streaming>
Kernel pick_unroll(int unroll) {
    switch (unroll) {
    case 1: return stream_kernel<Backward, 1, Streaming>;
    case 2: return stream_kernel<Backward, 2, Streaming>;
    case 4: return stream_kernel<Backward, 4, Streaming>;
    default: return stream_kernel<Backward, 8, Streaming>;
    }
}

Kernel pick(bool backward, const StreamVariant& variant) {
    if (backward)
        return variant.streaming ? pick_unroll<true, true>(variant.unroll) : pick_unroll<true, false>(variant.unroll);
    return variant.streaming ? pick_unroll<false, true>(variant.unroll) : pick_unroll<false, false>(variant.unroll);
}

__device__ int64_t place(const Box& box, int64_t index) {
    const int64_t inner = index % box.extent[2], rest = index / box.extent[2];
    return rest / box.extent[1] * box.stride[0] + rest % box.extent[1] * box.stride[1] + inner * box.stride[2];
}

__global__ void fill_kernel(const Box box, Kind kind, bool complex, uint64_t seed) {
    const int64_t count = box.extent[0] * box.extent[1] * box.extent[2];
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
        store(box.data, box.dtype, place(box, i), random_value(kind, complex, static_cast<uint64_t>(i), seed));
}

template <typename Word>
__global__ void gather_kernel(const Box box, int words, Word* to) {
    const int64_t count = box.extent[0] * box.extent[1] * box.extent[2] * words;
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    const Word* from = static_cast<const Word*>(box.data);
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = from[place(box, i / words) * words + i % words];
}

constexpr int threads = 256;

unsigned blocks_for(int64_t count) {
    return static_cast<unsigned>(std::clamp<int64_t>((count + threads - 1) / threads, 1, 16384));
}

}  // namespace

int launch_stream(const StreamArrays& arrays, bool backward, const StreamVariant& variant, int multiprocessors,
                  void* stream) {
    const Vectors vectors{static_cast<const uint4*>(arrays.read[0]), static_cast<const uint4*>(arrays.read[1]),
                          static_cast<const uint4*>(arrays.read[2]), static_cast<uint4*>(arrays.write[0]),
                          static_cast<uint4*>(arrays.write[1]),      static_cast<int64_t>(arrays.bytes / 16)};
    const Kernel kernel = pick(backward, variant);
    const int64_t share = static_cast<int64_t>(variant.threads) * variant.unroll;
    int64_t blocks = std::max<int64_t>((vectors.count + share - 1) / share, 1);
    if (!variant.one_shot) {
        int resident = 1;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, variant.threads, 0);
        blocks = std::min<int64_t>(blocks, static_cast<int64_t>(resident) * multiprocessors);
    }
    kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(variant.threads), 0,
             static_cast<cudaStream_t>(stream)>>>(vectors);
    return cudaGetLastError();
}

int launch_nothing(void* stream) {
    nothing_kernel<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>();
    return cudaGetLastError();
}

int launch_fill(const Box& box, Kind kind, uint64_t seed, void* stream) {
    const bool complex = box.dtype == FLASHSCAN_DTYPE_C64 || box.dtype == FLASHSCAN_DTYPE_C128;
    fill_kernel<<<blocks_for(box.count()), threads, 0, static_cast<cudaStream_t>(stream)>>>(box, kind, complex, seed);
    return cudaGetLastError();
}

int launch_gather(const Box& box, void* to, void* stream) {
    const auto on = static_cast<cudaStream_t>(stream);
    const unsigned blocks = blocks_for(box.count());
    switch (box.dtype) {
    case FLASHSCAN_DTYPE_BF16:
    case FLASHSCAN_DTYPE_F16: gather_kernel<<<blocks, threads, 0, on>>>(box, 1, static_cast<uint16_t*>(to)); break;
    case FLASHSCAN_DTYPE_I32:
    case FLASHSCAN_DTYPE_F32: gather_kernel<<<blocks, threads, 0, on>>>(box, 1, static_cast<uint32_t*>(to)); break;
    case FLASHSCAN_DTYPE_C64: gather_kernel<<<blocks, threads, 0, on>>>(box, 2, static_cast<uint32_t*>(to)); break;
    case FLASHSCAN_DTYPE_I64:
    case FLASHSCAN_DTYPE_F64: gather_kernel<<<blocks, threads, 0, on>>>(box, 1, static_cast<uint64_t*>(to)); break;
    case FLASHSCAN_DTYPE_C128: gather_kernel<<<blocks, threads, 0, on>>>(box, 2, static_cast<uint64_t*>(to)); break;
    default: gather_kernel<<<blocks, threads, 0, on>>>(box, 1, static_cast<uint8_t*>(to));
    }
    return cudaGetLastError();
}

}  // namespace bench
