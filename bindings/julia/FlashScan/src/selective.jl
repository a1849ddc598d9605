# SPDX-License-Identifier: Apache-2.0

struct SelectiveProblem
    plan::Plan{SelectiveDesc}
    inputs::Vector{Pair{Symbol,Any}}  # those that are there
    masks::NTuple{3,Pair{Symbol}}
    state_size::NTuple{3,Int}
    sizes::Dict{Symbol,Tuple}  # of B and C as they were given
end

# A matrix, constant or of each step, as an array of 2 or 3 axes, and its groups.
function step_matrix(name, matrix, (N, channels, time, batch), layout, M, T)
    if ndims(matrix) == 2
        return dense(expect_type(name, expect_size(name, matrix, (N, channels)), M)), 1
    end
    expect_type(name, matrix, M <: Complex ? M : T)
    groups = ndims(matrix) == 4 ? size(matrix, layout === :ctb ? 2 : 3) : 1
    inner = ndims(matrix) == 4 ? (N, groups) : (N,)
    expect_size(name, matrix, layout === :ctb ? (inner..., time, batch) : (time, inner..., batch))
    ndims(matrix) == 3 && return in_memory(matrix), 1
    reshape(dense(matrix), layout === :ctb ? (N * groups, time, batch) : (time, N * groups, batch)), groups
end

function common_groups(B, B_groups, C, C_groups)
    ndims(B) == 3 && ndims(C) == 3 && B_groups != C_groups &&
        throw(DimensionMismatch("B has $B_groups groups and C $C_groups; they must have as many"))
    max(B_groups, C_groups)
end

function selective_problem(u, delta, A, B, C; D = nothing, z = nothing, bias = nothing, softplus = false, state = nothing,
                           layout = :ctb, reverse = false, reset = nothing, offsets = nothing, options = Options(),
                           indices = nothing)
    layout_number = number_of("layout", layout, LINEAR_LAYOUTS, FIRST_LAYOUT)
    T, M = eltype(u), eltype(A)
    ndims(A) == 2 || throw(DimensionMismatch("A has $(ndims(A)) axes; expected are 2, (N, C)"))
    (channels, time, batch), _ = three_axes(in_memory(u), layout)
    N = size(A, 1)
    tensor(name, array) = in_memory(expect_type(name, expect_size(name, array, size(u)), T))
    vector(name, array) = dense(expect_type(name, expect_size(name, array, (channels,)), real(M)))
    b, b_groups = step_matrix("B", B, (N, channels, time, batch), layout, M, T)
    c, c_groups = step_matrix("C", C, (N, channels, time, batch), layout, M, T)
    sequences = packed(offsets)
    state_size = (N, channels, state_rows(indices, state, 3, batch, offsets, sequences))
    expect_size("reset", reset, (time, batch))
    inputs = (input = in_memory(u), delta = tensor("delta", delta), output_gate = tensor("z", z),
              a = dense(expect_size("A", A, (N, channels))), b = b, c = c, d = vector("D", D), bias = vector("bias", bias),
              state_in = dense(expect_type("state", expect_size("state", state, state_size), M)))
    flags = (reset !== nothing) * SELECTIVE_FLAG_RESET | softplus * SELECTIVE_FLAG_SOFTPLUS |
            (ndims(b) == 3) * SELECTIVE_FLAG_B_PER_STEP | (ndims(c) == 3) * SELECTIVE_FLAG_C_PER_STEP
    step_strides(matrix) = ndims(matrix) == 3 ? to_strides(three_axes(matrix, layout)) : Strides()
    desc = SelectiveDesc(; dtype = dtype(T), matrix_dtype = dtype(M), layout = layout_number,
                         direction = is_reverse(reverse), flags = flags, batch = batch, time = time, channels = channels,
                         states = N, groups = common_groups(b, b_groups, c, c_groups),
                         input = strides_or_none(inputs.input, layout), delta = strides_or_none(inputs.delta, layout),
                         output_gate = strides_or_none(inputs.output_gate, layout), b = step_strides(b),
                         c = step_strides(c), sequences..., pool(indices, state_size[3])...)
    given = Pair{Symbol,Any}[pair for pair in pairs(inputs) if pair[2] !== nothing]
    masks = (:reset => bytes_of(reset), :seq_offsets => dense(offsets), :state_indices => indices)
    SelectiveProblem(Plan(desc, options), given, masks, state_size, Dict(:b => size(B), :c => size(C)))
end

function run_forward(p::SelectiveProblem, matrix_type, state_out = Array{matrix_type}(undef, p.state_size))
    u = p.inputs[1][2]
    output = fresh(eltype(u), size(u), last(p.masks[2]))
    forward!(p.plan, p.inputs..., p.masks..., :output => output, :state_out => state_out)
    output, state_out
end

function run_backward(p::SelectiveProblem, grad_output, grad_state)
    u = p.inputs[1][2]
    expect_size("the gradient", grad_output, size(u))
    expect_size("the gradient of the state", grad_state, p.state_size)
    grads = Dict{Symbol,Any}(name => fresh(eltype(array), get(p.sizes, name, size(array)), last(p.masks[2]))
                             for (name, array) in p.inputs)
    backward!(p.plan, p.inputs..., p.masks..., :grad_output => dense(convert(AbstractArray{eltype(u)}, grad_output)),
              :grad_state_out => dense(grad_state), (Symbol(:grad_, name) => grad for (name, grad) in grads)...)
    grad(name) = get(grads, name, nothing)
    (u = grad(:input), delta = grad(:delta), A = grad(:a), B = grad(:b), C = grad(:c), D = grad(:d),
     z = grad(:output_gate), bias = grad(:bias), state = grad(:state_in))
end

"""
    selective_scan(u, delta, A, B, C; D, z, bias, softplus = false, state, layout = :ctb, reverse = false, reset, offsets,
                   final_state = false, options)

The state-space layer of Mamba with N states a channel: with `d = delta + bias`, or `log(1 + exp(delta + bias))` with
`softplus`, `h[t] = exp(d[t] A) h[t-1] + d[t] B[t] u[t]` and `y[t]` the sum of `C[t] h[t]` over the states, plus `D u[t]`. The
result is y, or `y z / (1 + exp(-z))` with `z`; with `final_state = true` it is `(y, final)`.

- `u`, `delta` and `z` have size `(C, T, B)`, the header's `[B, T, C]`, or `(T, C, B)` with `layout = :tcb`. Views are read in
  place.
- `A` has size `(N, C)`, the header's `[C, N]`.
- `B` and `C` are constant, of the size of `A`, or change from step to step: `(N, T, B)`, or `(N, G, T, B)` for G groups of
  neighbouring channels; `(T, N, B)` or `(T, N, G, B)` with `layout = :tcb`.
- `D` and `bias` have an element for each channel.
- `state` is h before the first step, `final` h after the last, of size `(N, C, B)`, `(N, C, sequences)` with `offsets`.
- `reset`, `offsets` and `reverse` are those of [`linear_scan`](@ref).

Elements of `u` are `Float32`, `Float64`, `Float16` or `BFloat16`. `A`, constant `B` and `C` and the states have the same type,
`Float32` for 16-bit `u`, or are complex; then each state stands for itself and its conjugate, and y is twice the real part
of the sum. `B` and `C` of each step have the type of `u`, or the complex one.

```jldoctest
julia> selective_scan([1.0, 1.0, 1.0], ones(3), fill(-log(2.0), 1, 1), ones(1, 1), reshape([1.0, 1.0, 2.0], 1, 3, 1))
3-element Vector{Float64}:
 1.0
 1.5
 3.5
```
"""
function selective_scan(u::AbstractArray, delta::AbstractArray, A::AbstractArray, B::AbstractArray, C::AbstractArray;
                        final_state = false, keywords...)
    y, final = run_forward(selective_problem(u, delta, A, B, C; keywords...), eltype(A))
    final_state ? (y, final) : y
end

"""
    (y, final), back = selective_scan_pullback(u, delta, A, B, C; keywords...)
    grads = back(grad_y, grad_final = nothing)

[`selective_scan`](@ref) with its pullback, in the style of ChainRules. `grads` is a named tuple of the gradients `u`, `delta`,
`A`, `B`, `C`, `D`, `z`, `bias` and `state`, in this order, `nothing` where there was no argument. Gradients of complex numbers
are those of PyTorch and ChainRules.
"""
function selective_scan_pullback(u::AbstractArray, delta::AbstractArray, A::AbstractArray, B::AbstractArray,
                                 C::AbstractArray; keywords...)
    problem = selective_problem(u, delta, A, B, C; keywords...)
    result = run_forward(problem, eltype(A))
    result, (grad_y, grad_final = nothing) -> run_backward(problem, grad_y, grad_final)
end
