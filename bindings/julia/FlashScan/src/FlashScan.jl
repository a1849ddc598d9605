# SPDX-License-Identifier: Apache-2.0
"""
Recurrences over sequences, forward and backward, by libflashscan: [`linear_scan`](@ref), [`gated_scan`](@ref),
[`selective_scan`](@ref), [`rnn`](@ref), [`prefix_scan`](@ref), [`reduce_scan`](@ref), [`affine_scan`](@ref), each with a
`_pullback`; [`linear_step!`](@ref), [`gated_step!`](@ref), [`selective_step!`](@ref) and [`rnn_step!`](@ref) go on by one
step, for decoding; [`indexed_scan`](@ref) and [`indexed_reduce`](@ref) tell where running extrema were reached. What they compute is defined in the C header `flashscan/flashscan.h`.

# Axes

Julia's arrays are column-major, the header's row-major. The same memory has its axes in opposite order, so **every array
here has the header's axes reversed**: `[B, T, C]` of the header is an array of size `(C, T, B)`, `[S, B, H, D]` of size
`(D, H, B, S)`. Nothing is copied or transposed. For matrices this means that **a matrix of the header is the transpose of
the Julia matrix in the same memory**: recurrent weights `[G, H, D, D]` (out, in) are of size `(D, D, H, G)` with the input
first, `weight[:, :, h, g] == transpose(R)`.

# The library

Loaded when the package is: the file in the environment's `FLASHSCAN_LIBRARY`, or `libflashscan.so.1` in the folder
`FLASHSCAN_LIB_DIR`, or the one of the Python package that FlashScan came with, or else as the system finds it.

# Plans

Functions make a plan for each call (some microseconds). To make it once, see [`Plan`](@ref), [`forward!`](@ref) and
[`backward!`](@ref), the C interface with Julia's arrays.
"""
module FlashScan

using Libdl

export linear_scan, linear_scan_pullback, rnn, rnn_pullback, Cell
export gated_scan, gated_scan_pullback, selective_scan, selective_scan_pullback
export prefix_scan, prefix_scan_pullback, reduce_scan, reduce_scan_pullback, affine_scan, affine_scan_pullback
export indexed_scan, indexed_reduce
export linear_step!, gated_step!, selective_step!, rnn_step!
export Plan, LinearDesc, RnnDesc, OperatorDesc, GatedDesc, SelectiveDesc, Options, forward!, backward!, describe, reserve
export FlashScanError, BFloat16

include("library.jl")
include("numbers.jl")
include("plan.jl")
include("arrays.jl")
include("linear.jl")
include("gated.jl")
include("selective.jl")
include("rnn.jl")
include("step.jl")
include("operator.jl")
include("custom.jl")

end
