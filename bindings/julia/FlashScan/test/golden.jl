# SPDX-License-Identifier: Apache-2.0
# Every golden case (tests/golden in the repository) in each of its types, through the functions on arrays.

const file = parse_json(read(joinpath(@__DIR__, "../../../../tests/golden/cases.json"), String))
const types = Dict("f32" => Float32, "bf16" => BFloat16, "f16" => Float16, "f64" => Float64, "c64" => ComplexF32,
                   "c128" => ComplexF64, "i32" => Int32, "i64" => Int64, "u8" => UInt8)

# A tensor as an array of T: the axes of the file reversed. Pairs go to complex types.
function array(tensor, T)
    sizes = Tuple(Int.(reverse(tensor["shape"])))
    data = convert(Vector{Float64}, tensor["data"])
    get(tensor, "complex", false) || return reshape(T[T(value) for value in data], sizes)
    reshape(T[T(re, im) for (re, im) in zip(data[1:2:end], data[2:2:end])], sizes)
end

components(x::AbstractArray{<:Complex}) = vec(reinterpret(Float64, ComplexF64.(vec(x))))
components(x::AbstractArray) = Float64.(vec(x))

struct GoldenCase
    case::Dict{String,Any}
    run::Dict{String,Any}
end

type_of(g::GoldenCase, field = "dtype") = types[get(g.run, field, g.run["dtype"])]
function type_of_argument(g::GoldenCase, name)
    base = replace(name, "grad_" => "")
    base == "reset" && return Bool
    base == "index" && return Int64
    base == "seq_offsets" && return types[g.case["desc"]["offsets_dtype"]]
    g.case["family"] == "selective" && return type_of_selective(g, base)
    base in ("gate", "second_gate") && return type_of(g, "gate_dtype")
    g.case["family"] == "gated" && base in ("param", "bias") && return type_of(g, "param_dtype")
    base in ("weight", "bias") && return type_of(g, "weight_dtype")
    startswith(base, "state") ? FlashScan.state_type(type_of(g)) : type_of(g)
end

function type_of_selective(g::GoldenCase, base)
    wide = FlashScan.state_type(type_of(g))
    matrix = haskey(g.run, "matrix_dtype") ? type_of(g, "matrix_dtype") : wide
    base in ("d", "bias") && return wide
    (base == "a" || startswith(base, "state")) && return matrix
    base in ("b", "c") || return type_of(g)
    base * "_per_step" in g.case["desc"]["flags"] && !(matrix <: Complex) ? type_of(g) : matrix
end

function get_input(g::GoldenCase, pass, name)
    tensors = g.case[pass]["in"]
    haskey(tensors, name) ? array(tensors[name], type_of_argument(g, name)) : nothing
end

function check_output(g::GoldenCase, pass, name, got)
    tensors = g.case[pass]["out"]
    haskey(tensors, name) || return
    @test eltype(got) == type_of_argument(g, name)
    @test size(got) == Tuple(Int.(reverse(tensors[name]["shape"])))
    expected = convert(Vector{Float64}, tensors[name]["data"])
    tolerance = file["tolerance"][g.run["dtype"]] * reduce(max, abs.(expected); init = 1.0)
    @test all(abs.(components(got) .- expected) .<= tolerance)
end

function shared_options(g::GoldenCase)
    desc = g.case["desc"]
    (state = get_input(g, "forward", "state_in"), reverse = desc["direction"] == "reverse",
     offsets = get_input(g, "forward", "seq_offsets"))
end

operator_layout(g) = Dict("btc" => :ctb, "bct" => :tcb)[g.case["desc"]["layout"]]

function check_pullback(g::GoldenCase, back, names)
    haskey(g.case, "backward") || return
    grads = back(get_input(g, "backward", "grad_output"), get_input(g, "backward", "grad_state_out"))
    for (name, grad) in zip(names, grads)
        check_output(g, "backward", name, grad)
    end
end

function play_linear(g::GoldenCase)
    desc = g.case["desc"]
    (h, final), back = linear_scan_pullback(get_input(g, "forward", "gate"), get_input(g, "forward", "input");
                                            form = Symbol(desc["gate_form"]), layout = operator_layout(g),
                                            reset = get_input(g, "forward", "reset"), shared_options(g)...)
    check_output(g, "forward", "output", h)
    check_output(g, "forward", "state_out", final)
    check_pullback(g, back, ("grad_gate", "grad_input", "grad_state_in"))
end

function play_rnn(g::GoldenCase)
    desc = g.case["desc"]
    options = (layout = desc["layout"] == "btghd" ? :dhgtb : :dhgbt, reset = get_input(g, "forward", "reset"),
               all_states = "all_states" in desc["flags"], shared_options(g)...)
    arguments = (Symbol(desc["cell"]), (get_input(g, "forward", name) for name in ("input", "weight", "bias"))...)
    output, final = rnn(arguments...; options...)
    check_output(g, "forward", "output", output)
    check_output(g, "forward", "state_out", final)
    haskey(g.case, "backward") || return
    (output, final), back = rnn_pullback(arguments...; clip = desc["recurrent_clip"], options...)
    check_output(g, "forward", "output", output)
    check_pullback(g, back, ("grad_input", "grad_weight", "grad_bias", "grad_state_in"))
end

function play_gated(g::GoldenCase)
    desc = g.case["desc"]
    input(name) = get_input(g, "forward", name)
    parts = isempty(desc["layer"]) ?
            (; (Symbol(part) => Symbol(desc[part]) for part in ("decay", "scale", "activation", "epilogue"))...) :
            (layer = Symbol(desc["layer"]),)
    beside = (; (Symbol(name) => input(name) for name in ("second_gate", "input_gate", "output_gate", "param", "bias"))...)
    (y, final), back = gated_scan_pullback(input("gate"), input("input"); layout = operator_layout(g),
                                           reset = input("reset"), decay_rate = desc["decay_rate"],
                                           sqrt_slope_limit = desc["sqrt_slope_limit"],
                                           first_step = "first_step" in desc["flags"], parts..., beside...,
                                           shared_options(g)...)
    check_output(g, "forward", "output", y)
    check_output(g, "forward", "state_out", final)
    check_pullback(g, back, ("grad_gate", "grad_input", "grad_second_gate", "grad_input_gate", "grad_output_gate",
                             "grad_param", "grad_bias", "grad_state_in"))
end

function play_selective(g::GoldenCase)
    flags = g.case["desc"]["flags"]
    input(name) = get_input(g, "forward", name)
    (y, final), back = selective_scan_pullback((input(name) for name in ("input", "delta", "a", "b", "c"))...;
                                               D = input("d"), z = input("output_gate"), bias = input("bias"),
                                               softplus = "softplus" in flags, layout = operator_layout(g),
                                               reset = input("reset"), shared_options(g)...)
    check_output(g, "forward", "output", y)
    check_output(g, "forward", "state_out", final)
    check_pullback(g, back, ("grad_input", "grad_delta", "grad_a", "grad_b", "grad_c", "grad_d", "grad_output_gate",
                             "grad_bias", "grad_state_in"))
end

function play_operator(g::GoldenCase)
    desc = g.case["desc"]
    kind, mode, input = Symbol(desc["kind"]), Symbol(desc["mode"]), get_input(g, "forward", "input")
    options = (layout = operator_layout(g), shared_options(g)...)
    if haskey(g.case["forward"]["out"], "index")
        y, index, final = FlashScan.run_indexed(
            FlashScan.OperatorProblem(kind, input, nothing, mode, options.state, options.layout, options.reverse,
                                      options.offsets, Options()))
        check_output(g, "forward", "index", index .- 1)
        check_output(g, "forward", "output", y)
        return check_output(g, "forward", "state_out", final)
    end
    if kind === :affine
        (y, final), back = affine_scan_pullback(get_input(g, "forward", "gate"), input; mode = mode, options...)
        names = ("grad_gate", "grad_input", "grad_state_in")
    else
        scan = mode === :reduction ? reduce_scan_pullback : prefix_scan_pullback
        exclusive = mode === :reduction ? NamedTuple() : (exclusive = mode === :exclusive,)
        (y, final), back = scan(kind, input; exclusive..., options...)
        names = ("grad_input", "grad_state_in")
    end
    check_output(g, "forward", "output", y)
    check_output(g, "forward", "state_out", final)
    check_pullback(g, back, names)
end

@testset "cells" begin
    @test [cell["name"] for cell in file["cells"]] == collect(String.(FlashScan.CELLS))
    for theirs in file["cells"]
        ours = Cell(Symbol(theirs["name"]))
        @test all(getfield(ours, Symbol(field)) == theirs[field] for field in ("number", "gates", "states", "biases"))
    end
end

@testset "golden $(case["name"])" for case in file["cases"]
    play = Dict("linear" => play_linear, "rnn" => play_rnn, "operator" => play_operator, "gated" => play_gated,
                "selective" => play_selective)[case["family"]]
    for run in case["runs"]
        play(GoldenCase(case, run))
    end
end
