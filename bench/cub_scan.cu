// SPDX-License-Identifier: Apache-2.0
// Prefix sums by CUB for peers.py, which builds this file on the machine with the GPU where it was not built before:
//
//     nvcc -O3 -arch=native -shared -Xcompiler -fPIC -o build/cub_scan.so bench/cub_scan.cu
//
// One row is a DeviceScan::InclusiveSum. Several rows are one InclusiveSumByKey, whose keys are the rows' numbers and
// are computed, not read: a call for each of 8192 rows would measure launches. The steps of a row are a power of two,
// so that a key costs a shift and no division. Sums of bf16 are taken in f32, as flashscan takes them.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cstdint>
#include <cub/device/device_scan.cuh>

namespace {

struct Float {
    __host__ __device__ float operator()(__nv_bfloat16 x) const { return __bfloat162float(x); }
};

struct RowOf {
    uint32_t log2_steps;
    __host__ __device__ uint32_t operator()(uint32_t element) const { return element >> log2_steps; }
};

struct Call {
    void* temp;
    size_t* temp_bytes;
    uint32_t rows, log2_steps;
    cudaStream_t stream;

    template <class Input, class Output>
    cudaError_t sum(Input input, Output* output) const {
        const uint32_t elements = rows << log2_steps;
        if (rows == 1) return cub::DeviceScan::InclusiveSum(temp, *temp_bytes, input, output, elements, stream);
        const auto keys = thrust::make_transform_iterator(thrust::make_counting_iterator(0U), RowOf{log2_steps});
        return cub::DeviceScan::InclusiveSumByKey(temp, *temp_bytes, keys, input, output, elements,
                                                  ::cuda::std::equal_to<>{}, stream);
    }
};

}  // namespace

// Sums rows << log2_steps elements, fewer than 2^32, of 4 (f32), 8 (f64) or 2 (bf16) bytes. A null `temp` asks for the
// size of the scratch memory alone, as in CUB. Returns a cudaError_t.
extern "C" int cub_prefix_sums(int element_bytes, void* temp, size_t* temp_bytes, const void* input, void* output,
                               uint32_t rows, uint32_t log2_steps, cudaStream_t stream) {
    const Call call{temp, temp_bytes, rows, log2_steps, stream};
    if (element_bytes == 4) return call.sum(static_cast<const float*>(input), static_cast<float*>(output));
    if (element_bytes == 8) return call.sum(static_cast<const double*>(input), static_cast<double*>(output));
    if (element_bytes != 2) return cudaErrorInvalidValue;
    return call.sum(thrust::make_transform_iterator(static_cast<const __nv_bfloat16*>(input), Float{}),
                    static_cast<__nv_bfloat16*>(output));
}
