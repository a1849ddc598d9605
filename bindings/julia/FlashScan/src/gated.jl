# SPDX-License-Identifier: Apache-2.0

const GATED_LAYERS = (:mingru, :minlstm, :hgrn, :rglru, :qrnn, :gilr)
const DECAYS = (:value, :exp, :sigmoid, :one_minus_sigmoid, :lower_bound, :softplus, :ratio)
const SCALES = (:one, :one_minus, :sqrt)
const ACTIVATIONS = (:none, :tanh, :silu, :positive)
const EPILOGUES = (:none, :sigmoid, :silu, :tanh_sigmoid)

# Inputs may have any strides; all that is written is dense, so that forward and backward are passes of one plan.
struct GatedProblem
    plan::Plan{GatedDesc}
    inputs::Vector{Pair{Symbol,Any}}  # those that are there
    states::Vector{Pair{Symbol,Any}}  # what both passes take besides
    state_size::NTuple{2,Int}
    takes_input::Bool
    has_epilogue::Bool
end

# Fields of the descriptor for the parts of a layer. Those of a layer with a name are 0.
function gated_parts(layer, decay, scale, activation, epilogue, gated_input)
    layer === nothing && decay === nothing && throw(ArgumentError("neither layer nor decay is given"))
    number(what, word, words, first, none) = word === none ? Int32(0) : number_of(what, word, words, first)
    (layer = number("layer", layer, GATED_LAYERS, FIRST_LAYER, nothing),
     decay = number("decay", decay, DECAYS, FIRST_DECAY, nothing),
     scale = number("scale", scale, SCALES, FIRST_SCALE, :one),
     activation = number("activation", activation, ACTIVATIONS, FIRST_ACTIVATION, :none),
     epilogue = number("epilogue", epilogue, EPILOGUES, FIRST_EPILOGUE, :none),
     input_gating = layer === nothing && gated_input ? GATED_INPUT_GATE_SIGMOID : Int32(0))
end

strides_or_none(::Nothing, _) = Strides()
strides_or_none(x, layout) = to_strides(three_axes(x, layout))
dtype_of_one(default, arrays...) =
    (given = filter(!isnothing, arrays); isempty(given) ? dtype(default) : dtype(eltype(first(given))))

function GatedProblem(gate, x; layer = nothing, decay = nothing, scale = :one, activation = :none, epilogue = :none,
                      second_gate = nothing, input_gate = nothing, output_gate = nothing, param = nothing,
                      bias = nothing, decay_rate = 0, sqrt_slope_limit = 0, first_step = false, state = nothing,
                      layout = :ctb, reverse = false, reset = nothing, offsets = nothing, options = Options(), indices = nothing)
    layout_number = number_of("layout", layout, LINEAR_LAYOUTS, FIRST_LAYOUT)
    parts = gated_parts(layer, decay, scale, activation, epilogue, input_gate !== nothing)
    T, G = eltype(x), eltype(gate)
    (channels, time, batch), _ = three_axes(in_memory(x), layout)
    tensor(name, array, type) = in_memory(expect_type(name, expect_size(name, array, size(x)), type))
    vector(name, array) = dense(expect_size(name, array, (channels,)))
    inputs = (input = in_memory(x), gate = tensor("gate", gate, G), second_gate = tensor("second_gate", second_gate, G),
              input_gate = tensor("input_gate", input_gate, T), output_gate = tensor("output_gate", output_gate, T),
              param = vector("param", param), bias = vector("bias", bias))
    sequences = packed(offsets)
    state_size = (channels, state_rows(indices, state, 2, batch, offsets, sequences))
    expect_size("reset", reset, (time, batch))
    expect_size("state", expect_type("state", state, state_type(T)), state_size)
    steps = map(name -> strides_or_none(inputs[name], layout), (:input, :gate, :second_gate, :input_gate, :output_gate))
    flags = (reset !== nothing) * GATED_FLAG_RESET | first_step * GATED_FLAG_FIRST_STEP
    desc = GatedDesc(; dtype = dtype(T), gate_dtype = dtype(G), param_dtype = dtype_of_one(T, param, bias),
                     layout = layout_number, direction = is_reverse(reverse), flags = flags, batch = batch, time = time,
                     channels = channels, decay_rate = decay_rate, sqrt_slope_limit = sqrt_slope_limit, parts...,
                     input = steps[1], gate = steps[2], second_gate = steps[3], input_gate = steps[4],
                     output_gate = steps[5], sequences..., pool(indices, state_size[2])...)
    given = Pair{Symbol,Any}[pair for pair in pairs(inputs) if pair[2] !== nothing]
    states = Pair{Symbol,Any}[:state_in => dense(state), :reset => bytes_of(reset), :seq_offsets => dense(offsets),
                                :state_indices => indices]
    takes_input = layer !== nothing || scale !== :one || activation !== :none || input_gate !== nothing
    GatedProblem(Plan(desc, options), given, states, state_size, takes_input, epilogue !== :none || layer === :qrnn)
end

function run_forward(p::GatedProblem, reserve, state_out = Matrix{state_type(eltype(p.inputs[1][2]))}(undef, p.state_size))
    x = p.inputs[1][2]
    output = fresh(eltype(x), size(x), last(p.states[3]))
    forward!(p.plan, p.inputs..., p.states..., :output => output, :state_out => state_out, :reserve => reserve)
    output, state_out
end

function run_backward(p::GatedProblem, output, reserve, grad_output, grad_state)
    x, state = p.inputs[1][2], p.states[1][2]
    expect_size("the gradient", grad_output, size(x))
    expect_size("the gradient of the state", grad_state, p.state_size)
    grads = Dict{Symbol,Any}(name => fresh(eltype(array), size(array), last(p.states[3])) for (name, array) in p.inputs)
    grads[:state_in] = state === nothing ? nothing : Array{eltype(state)}(undef, size(state))
    backward!(p.plan, p.inputs[(p.takes_input ? 1 : 2):end]..., p.states...,
              :output => p.has_epilogue ? nothing : output, :reserve => reserve,
              :grad_output => dense(convert(AbstractArray{eltype(x)}, grad_output)), :grad_state_out => dense(grad_state),
              (Symbol(:grad_, name) => grad for (name, grad) in grads)...)
    grad(name) = get(grads, name, nothing)
    (gate = grad(:gate), x = grad(:input), second_gate = grad(:second_gate), input_gate = grad(:input_gate),
     output_gate = grad(:output_gate), param = grad(:param), bias = grad(:bias), state = grad(:state_in))
end

"""
    gated_scan(gate, x; layer, decay, scale = :one, activation = :none, epilogue = :none, second_gate, input_gate,
               output_gate, param, bias, decay_rate = 8, sqrt_slope_limit, first_step = false, state, layout = :ctb,
               reverse = false, reset, offsets, final_state = false, options)

A gated layer, elementwise over channels and batch: `h[t] = a[t] h[t-1] + scale(a[t]) v[t]` with `a = decay(gate + bias)` and
`v = activation(x)`, times `s(input_gate)` if that is given, where `s(x) = 1 / (1 + exp(-x))`. The result is `epilogue(h)`,
or `(epilogue(h), final)` with `final_state = true`, `final` being h after the last step.

- `layer` is a layer with a name: `:mingru`, `:minlstm` (takes `second_gate`), `:hgrn` (`param`), `:rglru` (`input_gate`,
  `param`), `:qrnn` (`output_gate`), `:gilr`. Without it the four parts say what is computed:
- `decay` of g is `:value` g, `:exp`, `:sigmoid`, `:one_minus_sigmoid`, `:lower_bound` p + (1 - p) s(g), `:softplus`
  exp(-decay_rate log(1 + exp(p)) s(g)), or `:ratio` s(g) / (s(g) + s(second_gate)); p is `param`;
- `scale` is `:one`, `:one_minus` 1 - a, or `:sqrt` sqrt(1 - a²), whose slope `sqrt_slope_limit` bounds;
- `activation` is `:none`, `:tanh`, `:silu` x s(x), or `:positive` x + 1/2 for x >= 0, else s(x);
- `epilogue` is `:none`, `:sigmoid` h s(o), `:silu` h o s(o), or `:tanh_sigmoid` tanh(h) s(o); o is `output_gate`.
- `x` and all gates have size `(C, T, B)`, the header's `[B, T, C]`, or `(T, C, B)` with `layout = :tcb`; `param` and `bias`
  have C elements. Views are read in place.
- `first_step`: the scale is 1 where a sequence starts, as it is in `:rglru`.
- `state`, `final`, `reset`, `offsets` and `reverse` are those of [`linear_scan`](@ref).

Elements are `Float32`, `Float64`, `Float16` or `BFloat16`; `gate` and `second_gate`, and `param` and `bias`, may be `Float32`
with 16-bit `x`.

```jldoctest
julia> gated_scan(zeros(3), fill(0.5, 3); layer = :mingru)
3-element Vector{Float64}:
 0.5
 0.75
 0.875
```
"""
function gated_scan(gate::AbstractArray, x::AbstractArray; final_state = false, keywords...)
    output, final = run_forward(GatedProblem(gate, x; keywords...), nothing)
    final_state ? (output, final) : output
end

"""
    (y, final), back = gated_scan_pullback(gate, x; keywords...)
    grads = back(grad_y, grad_final = nothing)

[`gated_scan`](@ref) with its pullback, in the style of ChainRules. `grads` is a named tuple of the gradients `gate`, `x`,
`second_gate`, `input_gate`, `output_gate`, `param`, `bias` and `state`, in this order, `nothing` where there was no argument.
"""
function gated_scan_pullback(gate::AbstractArray, x::AbstractArray; keywords...)
    problem = GatedProblem(gate, x; keywords...)
    memory = problem.has_epilogue ? reserve(problem.plan) : nothing
    output, final = run_forward(problem, memory)
    back(grad_output, grad_final = nothing) = run_backward(problem, output, memory, grad_output, grad_final)
    (output, final), back
end
