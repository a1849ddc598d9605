# SPDX-License-Identifier: Apache-2.0
# One step of many sequences, whose states are updated in place: calls with a time axis of extent 1.

# An axis of time before that of the batch.
in_time(x::AbstractArray) = reshape(x, size(x)[1:end-1]..., 1, size(x)[end])
in_time(x::AbstractVector) = reshape(x, length(x), 1, 1)
in_time(::Nothing) = nothing

function expect_axes(name, array, count, axes)
    ndims(array) in count || throw(DimensionMismatch("$name has $(ndims(array)) axes; accepted are $axes"))
    in_time(array)
end

# The flags of a step's resets.
step_reset(::Nothing, batch) = nothing
step_reset(reset, batch) = reshape(expect_size("reset", reset, (batch,)), 1, batch)

# A state that can be written where it lies, and the library's numbers of its rows along `axis`, which count from 0.
function in_place(state, indices, axis, batch)
    state isa DenseArray ||
        throw(ArgumentError("state is a $(typeof(state)); accepted is an Array, which is updated in place"))
    state, library_rows(indices, batch, size(state, axis))
end
library_rows(::Nothing, batch, rows) = nothing
function library_rows(indices::AbstractVector{<:Integer}, batch, rows)
    expect_size("indices", indices, (batch,))
    rows > 0 || throw(ArgumentError("state has no rows; accepted with indices is one at least"))
    for (i, index) in enumerate(indices)
        0 <= index <= rows ||
            throw(ArgumentError("indices[$i] is $index; accepted are rows of the pool, 1 to $rows, and 0 for padding"))
    end
    allunique(filter(!iszero, indices)) ||
        throw(ArgumentError("indices are $indices; accepted are rows that differ, and 0 for padding"))
    Int32[index - 1 for index in indices]
end
library_rows(indices, batch, rows) =
    throw(ArgumentError("indices are a $(typeof(indices)); accepted is a vector of integers"))

"""
    h = linear_step!(state, gate, x; indices, form = :value, reset, options)

One step of [`linear_scan`](@ref): `h = a state + x`, which becomes the state.

- `x` has size `(C, B)`, `gate` the same or 1 along axes where it is the same for all, or is a vector of C elements.
- `state` is an `Array` of size `(C, B)`, in `Float32` for 16-bit `x`; or with `indices` a pool of size `(C, rows)`, in which
  batch entry i has the state `state[:, indices[i]]`. An index of 0 marks padding: `h` is 0 there, and no state is touched. No
  row of the pool may belong to two.
- `reset` of B elements: where it is true the state before the step counts as 0.

```jldoctest
julia> pool = ones(1, 5);

julia> linear_step!(pool, fill(0.5, 1, 3), ones(1, 3); indices = [4, 0, 2])
1×3 Matrix{Float64}:
 1.5  0.0  1.5

julia> pool
1×5 Matrix{Float64}:
 1.0  1.5  1.0  1.5  1.0
```
"""
function linear_step!(state::AbstractArray, gate::AbstractArray, x::AbstractArray; indices = nothing, form = :value,
                      reset = nothing, options = Options())
    x, gate = expect_axes("x", x, 2, "2, (C, B)"), expect_axes("gate", gate, 1:2, "1 and 2")
    batch = size(x, 3)
    state, rows = in_place(state, indices, 2, batch)
    problem = LinearProblem(gate, x, state, form, :ctb, false, step_reset(reset, batch), nothing, options, rows)
    h, _ = run_forward(problem, :ctb, state)
    reshape(h, size(h, 1), batch)
end

"""
    y = gated_step!(state, gate, x; indices, layer, decay, scale = :one, activation = :none, epilogue = :none, second_gate,
                    input_gate, output_gate, param, bias, decay_rate = 8, first_step = false, reset, options)

One step of [`gated_scan`](@ref), with `x` and all gates of size `(C, B)`; `state`, `indices` and `reset` as in
[`linear_step!`](@ref). Where a sequence starts whose layer has `first_step`, as `:rglru` has, `reset` says so.
"""
function gated_step!(state::AbstractArray, gate::AbstractArray, x::AbstractArray; indices = nothing, layer = nothing,
                     decay = nothing, scale = :one, activation = :none, epilogue = :none, second_gate = nothing,
                     input_gate = nothing, output_gate = nothing, param = nothing, bias = nothing, decay_rate = 0,
                     first_step = false, reset = nothing, options = Options())
    x, gate = expect_axes("x", x, 2, "2, (C, B)"), expect_axes("gate", gate, 2, "2, (C, B)")
    batch = size(x, 3)
    state, rows = in_place(state, indices, 2, batch)
    problem = GatedProblem(gate, x; layer = layer, decay = decay, scale = scale, activation = activation,
                           epilogue = epilogue, second_gate = in_time(second_gate), input_gate = in_time(input_gate),
                           output_gate = in_time(output_gate), param = param, bias = bias, decay_rate = decay_rate,
                           first_step = first_step, state = state, reset = step_reset(reset, batch), options = options,
                           indices = rows)
    y, _ = run_forward(problem, nothing, state)
    reshape(y, size(y, 1), batch)
end

"""
    y = selective_step!(state, u, delta, A, B, C; indices, D, z, bias, softplus = false, reset, options)

One step of [`selective_scan`](@ref).

- `u`, `delta` and `z` have size `(C, B)`, `B` and `C` `(N, B)`, or `(N, G, B)` for G groups of channels.
- `state` is an `Array` of size `(N, C, B)`, or with `indices` a pool of size `(N, C, rows)`, of A's type.
- `indices` and `reset` are those of [`linear_step!`](@ref).
"""
function selective_step!(state::AbstractArray, u::AbstractArray, delta::AbstractArray, A::AbstractArray,
                         B::AbstractArray, C::AbstractArray; indices = nothing, D = nothing, z = nothing, bias = nothing,
                         softplus = false, reset = nothing, options = Options())
    u, delta = expect_axes("u", u, 2, "2, (C, B)"), expect_axes("delta", delta, 2, "2, (C, B)")
    B, C = expect_axes("B", B, 2:3, "2 and 3"), expect_axes("C", C, 2:3, "2 and 3")
    batch = size(u, 3)
    state, rows = in_place(state, indices, 3, batch)
    problem = selective_problem(u, delta, A, B, C; D = D, z = in_time(z), bias = bias, softplus = softplus, state = state,
                                reset = step_reset(reset, batch), options = options, indices = rows)
    y, _ = run_forward(problem, eltype(A), state)
    reshape(y, size(y, 1), batch)
end

"""
    h = rnn_step!(state, cell, input, weight, bias = nothing; indices, reset, options)

One step of [`rnn`](@ref), with `input` of size `(D, H, G, B)` and `h` of size `(D, H, B)`. `state` is an `Array` of size
`(D, H, B, S)`, or with `indices` a pool of size `(D, H, rows, S)`; `indices` and `reset` are those of
[`linear_step!`](@ref).
"""
function rnn_step!(state::AbstractArray, cell::Symbol, input::AbstractArray, weight::AbstractArray, bias = nothing;
                   indices = nothing, reset = nothing, options = Options())
    input = expect_axes("input", input, 4, "4, (D, H, G, B)")
    batch = size(input, 5)
    state, rows = in_place(state, indices, 3, batch)
    problem = RnnProblem(cell, input, weight, bias, state, :dhgtb, false, step_reset(reset, batch), nothing, false, 0,
                         false, options, rows)
    # A network writes its states where they were read in pools alone.
    output, final = run_forward(problem, bias, nothing, rows === nothing ? new_state(problem) : state)
    final === state || copyto!(state, final)
    reshape(output, size(output)[1:2]..., batch)
end
