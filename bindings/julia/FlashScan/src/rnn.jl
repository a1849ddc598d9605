# SPDX-License-Identifier: Apache-2.0

# Gates, states and rows of the bias of each cell, in the order of their numbers.
const CELL_COUNTS = (
    lstm = (4, 2, 4),
    gru = (3, 1, 4),
    elman = (1, 1, 1),
    slstm = (4, 4, 4),
    gru_reset_before = (3, 1, 3),
    elman_relu = (1, 1, 1),
    mgu = (2, 1, 2),
)
const CELLS = keys(CELL_COUNTS)
const RNN_LAYOUTS = (:dhgtb, :dhgbt)

"""
    Cell(name)

Number, gates G, states S and rows of the bias of a cell of [`rnn`](@ref).
"""
struct Cell
    number::Int32
    gates::Int
    states::Int
    biases::Int
end
function Cell(name::Symbol)
    number = number_of("cell", name, CELLS, FIRST_CELL)
    Cell(number, CELL_COUNTS[name]...)
end

struct RnnProblem{T,W}
    plan::Plan{RnnDesc}
    input::DenseArray{T}
    weight::DenseArray{W}
    bias_size::NTuple{3,Int}
    output_size::Tuple
    state_size::NTuple{4,Int}
    state_in::SOMETHING
    masks::NTuple{3,Pair{Symbol}}
end

function RnnProblem(name, input, weight, bias, state, layout, reverse, reset, offsets, all_states, clip, training, options,
                    indices = nothing; allow_tf32 = false)
    cell = Cell(name)
    input, weight = dense(input), dense(weight)
    ndims(input) == 5 || throw(DimensionMismatch("input has $(ndims(input)) axes; expected are 5, (D, H, G, T, B)"))
    layout_number = number_of("layout", layout, RNN_LAYOUTS, FIRST_RNN_LAYOUT)
    batch_last = layout_number == FIRST_RNN_LAYOUT
    dim, heads, gates, time, batch = batch_last ? size(input) : size(input)[[1, 2, 3, 5, 4]]
    gates == cell.gates || throw(DimensionMismatch("input has $gates gates; $name has $(cell.gates)"))
    expect_size("weight", weight, (dim, dim, heads, gates))
    expect_size("bias", bias, (dim, heads, cell.biases))
    expect_size("reset", reset, (time, batch))
    expect_type("bias", bias, eltype(weight))
    expect_type("state", state, state_type(eltype(input)))
    sequences = packed(offsets)
    state_size = (dim, heads, state_rows(indices, state, 3, batch, offsets, sequences), cell.states)
    expect_size("state", state, state_size)
    outer = batch_last ? (time, batch) : (batch, time)
    flags = (reset !== nothing) * RNN_FLAG_RESET | all_states * RNN_FLAG_ALL_STATES | training * RNN_FLAG_TRAINING |
            allow_tf32 * RNN_FLAG_ALLOW_TF32
    desc = RnnDesc(; dtype = dtype(eltype(input)), weight_dtype = dtype(eltype(weight)), layout = layout_number,
                   cell = cell.number, direction = is_reverse(reverse), flags = flags, batch = batch, time = time,
                   heads = heads, head_dim = dim, recurrent_clip = clip, sequences..., pool(indices, state_size[3])...)
    output_size = all_states ? (dim, heads, outer..., cell.states) : (dim, heads, outer...)
    masks = (:reset => bytes_of(reset), :seq_offsets => dense(offsets), :state_indices => indices)
    RnnProblem(Plan(desc, options), input, weight, (dim, heads, cell.biases), output_size, state_size, dense(state), masks)
end

new_state(p::RnnProblem{T}) where {T} = Array{state_type(T)}(undef, p.state_size)

function run_forward(p::RnnProblem{T}, bias, reserve, state_out = new_state(p)) where {T}
    output = fresh(T, p.output_size, last(p.masks[2]))
    forward!(p.plan, :input => p.input, :weight => p.weight, :bias => dense(bias), :output => output,
             :state_in => p.state_in, :state_out => state_out, :reserve => reserve, p.masks...)
    output, state_out
end

function run_backward(p::RnnProblem{T,W}, output, reserve, grad_output, grad_state) where {T,W}
    expect_size("the gradient", grad_output, p.output_size)
    expect_size("the gradient of the states", grad_state, p.state_size)
    grad_input, grad_weight, grad_bias = fresh(T, size(p.input), last(p.masks[2])), similar(p.weight), Array{W}(undef, p.bias_size)
    grad_state_in = p.state_in === nothing ? nothing : new_state(p)
    backward!(p.plan, :weight => p.weight, :output => output, :state_in => p.state_in, :reserve => reserve, p.masks...,
              :grad_output => dense(convert(AbstractArray{T}, grad_output)), :grad_state_out => dense(grad_state),
              :grad_input => grad_input, :grad_weight => grad_weight, :grad_bias => grad_bias,
              :grad_state_in => grad_state_in)
    grad_input, grad_weight, grad_bias, grad_state_in
end

"""
    output, final = rnn(cell, input, weight, bias = nothing; state, layout = :dhgtb, reverse = false, reset, offsets,
                        all_states = false, allow_tf32 = false, options)

A recurrent network on the product of its input, `W x`. `cell` is `:lstm` (gates i f z o, states h c), `:gru` (r z n; h;
PyTorch's, with four biases r z n rn), `:gru_reset_before` (three biases), `:mgu` (f n; h), `:elman` (tanh), `:elman_relu`, or `:slstm`
(i f z o; h c n m). H heads of D units, G gates, S states:

- `input` has size `(D, H, G, T, B)`, the header's `[B, T, G, H, D]`; `(D, H, G, B, T)` with `layout = :dhgbt`.
- `weight` is `(D, D, H, G)` with the **input's unit first**: `weight[:, :, h, g]` is the transpose of the R in
  `raw = W x + R h`, so that `raw = W x + transpose(weight[:, :, h, g]) * h`.
- `bias` is `(D, H, G)`, `(D, H, 4)` for `:gru`.
- `output` is `(D, H, T, B)` (or `(D, H, B, T)`), with `all_states` `(D, H, T, B, S)`.
- `state` and `final` are `(D, H, B, S)`, `(D, H, N, S)` with `offsets`, in `Float32` for 16-bit input.
- `reset`, `offsets`, `reverse` are those of [`linear_scan`](@ref).
- `allow_tf32` lets a GPU round the factors of `Float32` products to tf32; the CPU does not heed it.

Elements are `Float32`, `Float64`, `Float16` or `BFloat16`; weights may be `Float32` with 16-bit input.
"""
function rnn(cell::Symbol, input::AbstractArray, weight::AbstractArray, bias = nothing; state = nothing, layout = :dhgtb,
             reverse = false, reset = nothing, offsets = nothing, all_states = false, allow_tf32 = false,
             options = Options())
    problem = RnnProblem(cell, input, weight, bias, state, layout, reverse, reset, offsets, all_states, 0, false, options;
                         allow_tf32)
    run_forward(problem, bias, nothing)
end

"""
    (output, final), back = rnn_pullback(cell, input, weight, bias = nothing; keywords..., clip = 0)
    grad_input, grad_weight, grad_bias, grad_state = back(grad_output, grad_final = nothing)

[`rnn`](@ref) with its pullback, in the style of ChainRules. `grad_state` is `nothing` without `state`; `grad_bias` is there
without a bias too. `clip` > 0 limits the gradient that reaches h through the weights, at every step.
"""
function rnn_pullback(cell::Symbol, input::AbstractArray, weight::AbstractArray, bias = nothing; state = nothing,
                      layout = :dhgtb, reverse = false, reset = nothing, offsets = nothing, all_states = false, clip = 0,
                      allow_tf32 = false, options = Options())
    problem = RnnProblem(cell, input, weight, bias, state, layout, reverse, reset, offsets, all_states, clip, true, options;
                         allow_tf32)
    memory = reserve(problem.plan)
    output, final = run_forward(problem, bias, memory)
    back(grad_output, grad_final = nothing) = run_backward(problem, output, memory, grad_output, grad_final)
    (output, final), back
end
