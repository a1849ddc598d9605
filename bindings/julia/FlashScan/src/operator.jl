# SPDX-License-Identifier: Apache-2.0

const KINDS = (add = 1001, mul = 1002, min = 1003, max = 1004, logaddexp = 1005, matmul = 1006, affine = 1007, and = 1009,
               or = 1010, xor = 1011)
const MODES = (:inclusive, :exclusive, :reduction)
const OPERATOR_LAYOUTS = (:ctb, :tcb)

struct OperatorProblem{T}
    plan::Plan{OperatorDesc}
    kind::Symbol
    input::DenseArray{T}
    gate::Union{Nothing,DenseArray{T}}
    output_size::Tuple
    state_size::Tuple
    state_in::SOMETHING
    offsets::SOMETHING
end

# (channels, time, batch) of an array whose first axes are an element's; trailing axes and channels may be missing.
function outer_axes(x, element_axes, layout)
    outer = size(x)[element_axes+1:end]
    1 <= length(outer) <= 3 ||
        throw(DimensionMismatch("an array has $(ndims(x)) axes; expected are $element_axes of an element and 1 to 3 more"))
    outer = length(outer) == 1 && layout === :ctb ? (1, outer...) : outer
    sizes = (outer..., 1, 1)[1:3]
    layout === :ctb ? sizes : sizes[[2, 1, 3]]
end

function check_elements(kind, input, gate)
    kind === :matmul && size(input, 1) != size(input, 2) &&
        throw(DimensionMismatch("matrices have size $(size(input)[1:2]); they must be square"))
    gate === nothing && return
    dim = size(input, 1)
    expect_size("the matrices", gate, (dim, dim, size(input)[2:end]...))
    expect_type("the matrices", gate, eltype(input))
end

function OperatorProblem(kind::Symbol, input, gate, mode, state, layout, reverse, offsets, options)
    number = number_of("operator", kind, KINDS)
    layout_number = number_of("layout", layout, OPERATOR_LAYOUTS, FIRST_LAYOUT)
    element_axes = kind === :matmul ? 2 : kind === :affine ? 1 : 0
    ndims(input) > element_axes || throw(DimensionMismatch("an array has $(ndims(input)) axes, too few for $kind"))
    check_elements(kind, input, gate)
    channels, time, batch = outer_axes(input, element_axes, layout)
    sequences = packed(offsets)
    element = size(input)[1:element_axes]
    rows = offsets === nothing ? batch : sequences.num_sequences
    state_size = (element..., channels, rows)
    expect_size("state", state, state_size)
    expect_type("state", state, state_type(eltype(input)))
    desc = OperatorDesc(; dtype = dtype(eltype(input)), kind = number, layout = layout_number,
                        mode = number_of("mode", mode, MODES, FIRST_MODE), direction = is_reverse(reverse), batch = batch,
                        time = time, channels = channels, dim = element_axes == 0 ? 0 : size(input, 1), sequences...)
    output_size = mode === :reduction ? state_size : size(input)
    OperatorProblem(Plan(desc, options), kind, dense(input), dense(gate), output_size, state_size, dense(state),
                    dense(offsets))
end

new_state(p::OperatorProblem{T}) where {T} = Array{state_type(T)}(undef, p.state_size)

function run_forward(p::OperatorProblem{T}, index = nothing) where {T}
    output, state_out = fresh(T, p.output_size, p.offsets), new_state(p)
    forward!(p.plan, :input => p.input, :gate => p.gate, :output => output, :index => index, :state_in => p.state_in,
             :state_out => state_out, :seq_offsets => p.offsets)
    output, state_out
end

function run_backward(p::OperatorProblem{T}, output, grad_output, grad_state) where {T}
    expect_size("the gradient", grad_output, p.output_size)
    expect_size("the gradient of the state", grad_state, p.state_size)
    reduction = p.plan.desc.mode == MODE_REDUCTION
    affine = p.kind === :affine
    takes_input = affine ? reduction : p.kind !== :add
    takes_output = (affine || p.kind === :matmul) && !reduction
    grad_input = fresh(T, size(p.input), p.offsets)
    grad_gate = p.gate === nothing ? nothing : fresh(T, size(p.gate), p.offsets)
    grad_state_in = p.state_in === nothing ? nothing : new_state(p)
    backward!(p.plan, :input => takes_input ? p.input : nothing, :gate => p.gate,
              :output => takes_output ? output : nothing, :state_in => p.state_in, :seq_offsets => p.offsets,
              :grad_output => dense(convert(AbstractArray{T}, grad_output)), :grad_state_out => dense(grad_state),
              :grad_input => grad_input, :grad_gate => grad_gate, :grad_state_in => grad_state_in)
    grad_gate, grad_input, grad_state_in
end

"""
    prefix_scan(op, x; exclusive = false, state, layout = :ctb, reverse = false, offsets, final_state = false, options)
    reduce_scan(op, x; state, layout = :ctb, reverse = false, offsets, options)

Prefixes `y[t] = state ∘ x[1] ∘ ... ∘ x[t]` along time, and the last of them alone. Operands keep their order, so an operator
need not commute. `op` is

- `+` or `:add`, `*` or `:mul`, `min`, `max` (or symbols), `:logaddexp`, on numbers; but for `:logaddexp` also on `Int32`,
  `Int64` and `UInt8`, which wrap, and on these `&` or `:and`, `|` or `:or`, `⊻` or `:xor`: `x` has size `(C, T, B)`, or `(T, C, B)` with
  `layout = :tcb`; trailing axes may be missing, a vector is one chain;
- `:matmul` on matrices: `x` is `(d, d, C, T, B)`. A Julia matrix is the transpose of the header's in the same memory, and
  so **the later matrix is on the left**: `y[t] = x[t] * ... * x[2] * x[1] * state`, what linear dynamics need. For
  `x[1] * x[2] * ...` scan the transposed matrices, `permutedims(x, (2, 1, 3, 4, 5))`;
- any associative function of two elements of one isbits type (forward alone, on the calling thread).

`exclusive` gives `y[t-1]`, first the state or the identity. `state`, the last y (with `final_state = true`) and reductions
have size `(element..., C, B)`, in `Float32` or wider. `offsets` and `reverse` are those of [`linear_scan`](@ref); reverse is
the same on the sequence turned round, and turned back.

```jldoctest
julia> prefix_scan(max, [1.0, 3.0, 2.0, 5.0])
4-element Vector{Float64}:
 1.0
 3.0
 3.0
 5.0
```
"""
function prefix_scan(op::Symbol, x::AbstractArray; exclusive = false, state = nothing, layout = :ctb, reverse = false,
                     offsets = nothing, final_state = false, options = Options())
    mode = exclusive ? :exclusive : :inclusive
    y, final = run_forward(OperatorProblem(op, x, nothing, mode, state, layout, reverse, offsets, options))
    final_state ? (y, final) : y
end

"""
    reduce_scan(op, x; keywords...)

The last prefix alone: see [`prefix_scan`](@ref).
"""
function reduce_scan(op::Symbol, x::AbstractArray; state = nothing, layout = :ctb, reverse = false, offsets = nothing,
                     options = Options())
    run_forward(OperatorProblem(op, x, nothing, :reduction, state, layout, reverse, offsets, options))[1]
end

"""
    indexed_scan(op, x; keywords...)
    indexed_reduce(op, x; keywords...)

[`prefix_scan`](@ref) and [`reduce_scan`](@ref) with `min` or `max`, or `:min` or `:max`, and the steps that the extrema were
reached at: `(y, index)`, or `(y, index, final)` with `final_state = true`. `index` has the size of `y` and counts steps along
the axis of time from 1, those of packed sequences too; of equal elements it is that of the earlier in the order of
computation, of NaN that of the first. It is 0 where `y` is the state or the identity, and behind the last of packed
sequences.

```jldoctest
julia> indexed_scan(max, [1.0, 3.0, 2.0, 5.0])[2]
4-element Vector{Int64}:
 1
 2
 2
 4
```
"""
function indexed_scan(op::Symbol, x::AbstractArray; exclusive = false, state = nothing, layout = :ctb, reverse = false,
                      offsets = nothing, final_state = false, options = Options())
    mode = exclusive ? :exclusive : :inclusive
    y, index, final = run_indexed(OperatorProblem(op, x, nothing, mode, state, layout, reverse, offsets, options))
    final_state ? (y, index, final) : (y, index)
end

"""
    indexed_reduce(op, x; keywords...)

The last of [`indexed_scan`](@ref) alone.
"""
function indexed_reduce(op::Symbol, x::AbstractArray; state = nothing, layout = :ctb, reverse = false, offsets = nothing,
                        options = Options())
    run_indexed(OperatorProblem(op, x, nothing, :reduction, state, layout, reverse, offsets, options))[1:2]
end

indexed_scan(op, x::AbstractArray; keywords...) = indexed_scan(extremum(op), x; keywords...)
indexed_reduce(op, x::AbstractArray; keywords...) = indexed_reduce(extremum(op), x; keywords...)
extremum(::typeof(min)) = :min
extremum(::typeof(max)) = :max
extremum(op) = throw(ArgumentError("op is $op; accepted are min and max, which an index is known of"))

function run_indexed(p::OperatorProblem)
    p.kind in (:min, :max) || extremum(p.kind)
    index = fill(-1, p.output_size)
    y, final = run_forward(p, index)
    index .+= 1
    y, index, final
end

"""
    (y, final), back = prefix_scan_pullback(op, x; keywords...)
    (y, final), back = reduce_scan_pullback(op, x; keywords...)
    grad_x, grad_state = back(grad_y, grad_final = nothing)

[`prefix_scan`](@ref) and [`reduce_scan`](@ref) with their pullbacks, in the style of ChainRules, for named operators.
`grad_state` is `nothing` without `state`.
"""
function prefix_scan_pullback(op::Symbol, x::AbstractArray; exclusive = false, state = nothing, layout = :ctb,
                              reverse = false, offsets = nothing, options = Options())
    mode = exclusive ? :exclusive : :inclusive
    with_pullback(OperatorProblem(op, x, nothing, mode, state, layout, reverse, offsets, options), 2:3)
end

"""
    reduce_scan_pullback(op, x; keywords...)

See [`prefix_scan_pullback`](@ref).
"""
function reduce_scan_pullback(op::Symbol, x::AbstractArray; state = nothing, layout = :ctb, reverse = false,
                              offsets = nothing, options = Options())
    with_pullback(OperatorProblem(op, x, nothing, :reduction, state, layout, reverse, offsets, options), 2:3)
end

function with_pullback(problem, gradients)
    y, final = run_forward(problem)
    (y, final), (grad_y, grad_final = nothing) -> run_backward(problem, y, grad_y, grad_final)[gradients]
end

"""
    affine_scan(W, x; mode = :inclusive, state, layout = :ctb, reverse = false, offsets, final_state = false, options)

`y[t] = transpose(W[:, :, c, t, b]) * y[t-1] + x[t]`: the linear recurrence with matrices as gates. `x` has size
`(d, C, T, B)` and `W` `(d, d, C, T, B)` with the **input's axis first** (the header's matrices, row: out, column: in, are the
transposes of Julia's in the same memory). `mode` is `:inclusive`, `:exclusive` or `:reduction`; the rest is as in
[`prefix_scan`](@ref).
"""
function affine_scan(W::AbstractArray, x::AbstractArray; mode = :inclusive, state = nothing, layout = :ctb, reverse = false,
                     offsets = nothing, final_state = false, options = Options())
    y, final = run_forward(OperatorProblem(:affine, x, W, mode, state, layout, reverse, offsets, options))
    final_state ? (y, final) : y
end

"""
    (y, final), back = affine_scan_pullback(W, x; keywords...)
    grad_W, grad_x, grad_state = back(grad_y, grad_final = nothing)

[`affine_scan`](@ref) with its pullback, in the style of ChainRules.
"""
function affine_scan_pullback(W::AbstractArray, x::AbstractArray; mode = :inclusive, state = nothing, layout = :ctb,
                              reverse = false, offsets = nothing, options = Options())
    with_pullback(OperatorProblem(:affine, x, W, mode, state, layout, reverse, offsets, options), 1:3)
end
