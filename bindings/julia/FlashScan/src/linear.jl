# SPDX-License-Identifier: Apache-2.0

const GATE_FORMS = (:value, :log, :logit)
const LINEAR_LAYOUTS = (:ctb, :tcb)

# Sizes and strides of (channels, time, batch), from an array that may lack trailing axes, and channels if it is a vector.
function three_axes(x, layout)
    ndims(x) <= 3 || throw(DimensionMismatch("an array has $(ndims(x)) axes; accepted are 1 to 3"))
    sizes, steps = size(x), strides(x)
    if ndims(x) == 1 && layout === :ctb
        sizes, steps = (1, sizes...), (0, steps...)
    end
    sizes, steps = (sizes..., 1, 1)[1:3], (steps..., 0, 0)[1:3]
    layout === :ctb ? (sizes, steps) : (sizes[[2, 1, 3]], steps[[2, 1, 3]])
end
to_strides(((_, steps))) = Strides(steps[3], steps[2], steps[1])

# What forward and backward of one problem share.
struct LinearProblem{X,G}
    gate::G
    x::X
    desc::NamedTuple
    state_size::NTuple{2,Int}
    state_in::SOMETHING
    reset::SOMETHING
    offsets::SOMETHING
    indices::SOMETHING
    options::Options
end

function LinearProblem(gate, x, state, form, layout, reverse, reset, offsets, options, indices = nothing)
    number_of("layout", layout, LINEAR_LAYOUTS, FIRST_LAYOUT)
    gate, x = in_memory(gate), in_memory(x)
    (channels, time, batch), _ = three_axes(x, layout)
    gate_sizes, gate_steps = three_axes(gate, layout)
    for (own, full) in zip(gate_sizes, (channels, time, batch))
        own in (1, full) || throw(DimensionMismatch("gate has size $(size(gate)), which does not broadcast to $(size(x))"))
    end
    alone = (gate_sizes .== 1) .& ((channels, time, batch) .!= 1)
    broadcast = UInt32(alone[3] + 2 * alone[2] + 4 * alone[1])
    sequences = packed(offsets)
    state_size = (channels, state_rows(indices, state, 2, batch, offsets, sequences))
    desc = (dtype = dtype(eltype(x)), gate_dtype = dtype(eltype(gate)), batch = batch, time = time, channels = channels,
            gate_form = number_of("form", form, GATE_FORMS, FIRST_GATE_FORM), gate_broadcast = broadcast,
            direction = is_reverse(reverse), flags = reset === nothing ? UInt32(0) : LINEAR_FLAG_RESET,
            input = to_strides(three_axes(x, layout)),
            gate = to_strides((nothing, ifelse.(gate_sizes .== 1, 0, gate_steps))), sequences...,
            pool(indices, state_size[2])...)
    expect_size("reset", reset, (time, batch))
    expect_type("state", state, state_type(eltype(x)))
    state = dense(expect_size("state", state, state_size))
    LinearProblem(gate, x, desc, state_size, state, bytes_of(reset), dense(offsets), indices, options)
end

new_state(p::LinearProblem) = Matrix{state_type(eltype(p.x))}(undef, p.state_size)

function run_forward(p::LinearProblem, layout, state_out)
    h = fresh(eltype(p.x), size(p.x), p.offsets)
    plan = Plan(LinearDesc(; p.desc..., output = to_strides(three_axes(h, layout))), p.options)
    forward!(plan, :input => p.x, :gate => p.gate, :output => h, :state_in => p.state_in, :state_out => state_out,
             :reset => p.reset, :seq_offsets => p.offsets, :state_indices => p.indices)
    h, state_out
end

function run_backward(p::LinearProblem, layout, h, grad_h, grad_state)
    expect_size("the gradient", grad_h, size(p.x))
    grad_h = in_memory(convert(AbstractArray{eltype(p.x)}, grad_h))
    expect_size("the gradient of the state", grad_state, p.state_size)
    grad_gate, grad_x = (fresh(eltype(array), size(array), p.offsets) for array in (p.gate, p.x))
    grad_gate_sizes, grad_gate_steps = three_axes(grad_gate, layout)
    desc = LinearDesc(; p.desc..., output = to_strides(three_axes(h, layout)),
                      grad_input = to_strides(three_axes(grad_x, layout)),
                      grad_gate = to_strides((nothing, ifelse.(grad_gate_sizes .== 1, 0, grad_gate_steps))),
                      grad_output = to_strides(three_axes(grad_h, layout)))
    grad_state_in = p.state_in === nothing ? nothing : new_state(p)
    backward!(Plan(desc, p.options), :gate => p.gate, :output => h, :state_in => p.state_in, :reset => p.reset,
              :seq_offsets => p.offsets, :grad_output => grad_h, :grad_state_out => dense(grad_state),
              :grad_gate => grad_gate, :grad_input => grad_x, :grad_state_in => grad_state_in)
    grad_gate, grad_x, grad_state_in
end

"""
    linear_scan(gate, x; state, form = :value, layout = :ctb, reverse = false, reset, offsets, final_state = false, options)

`h[t] = a[t] h[t-1] + x[t]`, elementwise over channels and batch; `h`, or `(h, final)` with `final_state = true`.

- `x` has size `(C, T, B)`, the header's `[B, T, C]`: channels lie next to each other. With `layout = :tcb` it is `(T, C, B)`,
  the header's `[B, C, T]`: steps do. Trailing axes may be missing; a vector is one channel. Views are read in place.
- `gate` has the size of `x`, or 1 along axes where it is the same for all. `form` says what it holds: `:value` a, `:log`
  log(a), `:logit` with a = 1 / (1 + exp(-g)).
- `state` is h before the first step, `final` h after the last, of size `(C, B)`, in `Float32` for 16-bit `x`.
- `reset` of size `(T, B)`: where it is true the carried state is 0 before the step.
- `offsets` of N + 1 integers from 0: N sequences one after another in one row (B = 1), `offsets[n]+1:offsets[n+1]`; states
  are then `(C, N)`. Behind the last sequence results and gradients are 0.
- Elements are `Float32`, `Float64`, `Float16`, `BFloat16`, `ComplexF32` or `ComplexF64`; a gate may be `Float32` with
  16-bit and `ComplexF32`, `Float64` with `ComplexF64`.

```jldoctest
julia> linear_scan(fill(0.5, 4), ones(4))
4-element Vector{Float64}:
 1.0
 1.5
 1.75
 1.875
```
"""
function linear_scan(gate::AbstractArray, x::AbstractArray; state = nothing, form = :value, layout = :ctb, reverse = false,
                     reset = nothing, offsets = nothing, final_state = false, options = Options())
    problem = LinearProblem(gate, x, state, form, layout, reverse, reset, offsets, options)
    h, final = run_forward(problem, layout, final_state ? new_state(problem) : nothing)
    final_state ? (h, final) : h
end

"""
    (h, final), back = linear_scan_pullback(gate, x; keywords...)
    grad_gate, grad_x, grad_state = back(grad_h, grad_final = nothing)

[`linear_scan`](@ref) with its pullback, in the style of ChainRules: `back` takes the gradients of both results and returns
those of the arguments, `grad_state` being `nothing` without `state`. It may be called repeatedly while `gate` and `h` stay
as they are. Gradients of complex numbers are those of PyTorch and ChainRules. For Zygote and the like:

    function ChainRulesCore.rrule(::typeof(linear_scan), gate, x)
        (h, _), back = linear_scan_pullback(gate, x)
        h, dh -> (NoTangent(), back(unthunk(dh))[1:2]...)
    end
"""
function linear_scan_pullback(gate::AbstractArray, x::AbstractArray; state = nothing, form = :value, layout = :ctb,
                              reverse = false, reset = nothing, offsets = nothing, options = Options())
    problem = LinearProblem(gate, x, state, form, layout, reverse, reset, offsets, options)
    h, final = run_forward(problem, layout, new_state(problem))
    (h, final), (grad_h, grad_final = nothing) -> run_backward(problem, layout, h, grad_h, grad_final)
end
