# SPDX-License-Identifier: Apache-2.0
# The C interface: constants, structs as isbits mirrors, functions, failures.

const F32, BF16, F16, F64, C64, C128, I32, I64, U8 = Int32.(201:209)
const CPU, CUDA = Int32.(101:102)
const PASS_FORWARD, PASS_BACKWARD = Int32.(501:502)
const DETERMINISM_RUN_TO_RUN, DETERMINISM_BATCH_INVARIANT = Int32.(601:602)
const OPERATOR_CUSTOM = Int32(1008)
const FIRST_LAYOUT, FIRST_RNN_LAYOUT, FIRST_GATE_FORM, FIRST_CELL = Int32(301), Int32(303), Int32(801), Int32(901)
const FIRST_MODE, MODE_REDUCTION = Int32(1101), Int32(1103)
const FIRST_LAYER, FIRST_DECAY, FIRST_SCALE, FIRST_ACTIVATION, FIRST_EPILOGUE = Int32.((1501, 1601, 1701, 1801, 2101))
const GATED_INPUT_GATE_SIGMOID = Int32(1902)
const LINEAR_FLAG_RESET = UInt32(1) << 4
const RNN_FLAG_RESET, RNN_FLAG_ALL_STATES, RNN_FLAG_TRAINING, RNN_FLAG_ALLOW_TF32 = UInt32(1) .<< (8, 9, 10, 11)
const GATED_FLAG_RESET, GATED_FLAG_FIRST_STEP = UInt32(1) .<< (20, 21)
const SELECTIVE_FLAG_RESET, SELECTIVE_FLAG_SOFTPLUS = UInt32(1) .<< (24, 25)
const SELECTIVE_FLAG_B_PER_STEP, SELECTIVE_FLAG_C_PER_STEP = UInt32(1) .<< (26, 27)
const GRAD = Int32(1) << 30
const ARGUMENTS = (input = 2001, gate = 2002, output = 2003, state_in = 2004, state_out = 2005, reset = 2006,
                   seq_offsets = 2007, weight = 2008, bias = 2009, scratch = 2010, reserve = 2011,
                   state_indices = 2012, input_gate = 2013, output_gate = 2014, second_gate = 2015, param = 2016,
                   delta = 2017, a = 2018, b = 2019, c = 2020, d = 2021, index = 2022, iterations = 2023,
                   residual = 2024)

struct Arg
    id::Int32
    reserved::Int32
    data::Ptr{Cvoid}
    bytes::Csize_t
end

struct COptions
    struct_size::UInt32
    backend::Int32
    device::Int32
    threads::Int32
    determinism::Int32
    workspace::Int32
    kernel::Ptr{UInt8}
    allocator::Ptr{Cvoid}
    log::Ptr{Cvoid}
    log_user::Ptr{Cvoid}
    communicator::Ptr{Cvoid}
end

struct Strides
    batch::Int64
    time::Int64
    channels::Int64
end
Strides() = Strides(0, 0, 0)

struct StateStrides
    row::Int64
    state::Int64
end
StateStrides() = StateStrides(0, 0)

struct LinearDesc
    struct_size::UInt32
    dtype::Int32
    gate_dtype::Int32
    layout::Int32
    gate_form::Int32
    gate_broadcast::UInt32
    direction::Int32
    flags::UInt32
    batch::Int64
    time::Int64
    channels::Int64
    num_sequences::Int64
    offsets_dtype::Int32
    reserved::Int32
    input::Strides
    gate::Strides
    output::Strides
    grad_input::Strides
    grad_gate::Strides
    grad_output::Strides
    state_in::StateStrides
    state_out::StateStrides
    grad_state_in::StateStrides
    grad_state_out::StateStrides
    state_pool::Int64
end

struct RnnDesc
    struct_size::UInt32
    dtype::Int32
    weight_dtype::Int32
    layout::Int32
    cell::Int32
    direction::Int32
    flags::UInt32
    offsets_dtype::Int32
    batch::Int64
    time::Int64
    heads::Int64
    head_dim::Int64
    num_sequences::Int64
    recurrent_clip::Float64
    state_in::StateStrides
    state_out::StateStrides
    grad_state_in::StateStrides
    grad_state_out::StateStrides
    state_pool::Int64
end

struct CustomOperator
    struct_size::UInt32
    code_kind::Int32
    element_bytes::Int64
    state::Ptr{Cvoid}
    state_bytes::Csize_t
    host::Ptr{Cvoid}
    host_adjoint::Ptr{Cvoid}
    batched::Ptr{Cvoid}
    batched_adjoint::Ptr{Cvoid}
    code::Ptr{Cvoid}
    code_bytes::Csize_t
    name::Ptr{UInt8}
    adjoint_name::Ptr{UInt8}
end

struct OperatorDesc
    struct_size::UInt32
    dtype::Int32
    kind::Int32
    layout::Int32
    mode::Int32
    direction::Int32
    flags::UInt32
    offsets_dtype::Int32
    batch::Int64
    time::Int64
    channels::Int64
    dim::Int64
    num_sequences::Int64
    custom::Ptr{CustomOperator}
    state_in::StateStrides
    state_out::StateStrides
    grad_state_in::StateStrides
    grad_state_out::StateStrides
end

struct GatedDesc
    struct_size::UInt32
    dtype::Int32
    gate_dtype::Int32
    param_dtype::Int32
    layout::Int32
    layer::Int32
    decay::Int32
    scale::Int32
    activation::Int32
    input_gating::Int32
    epilogue::Int32
    direction::Int32
    flags::UInt32
    offsets_dtype::Int32
    batch::Int64
    time::Int64
    channels::Int64
    num_sequences::Int64
    decay_rate::Float64
    sqrt_slope_limit::Float64
    input::Strides
    gate::Strides
    second_gate::Strides
    input_gate::Strides
    output_gate::Strides
    output::Strides
    grad_input::Strides
    grad_gate::Strides
    grad_second_gate::Strides
    grad_input_gate::Strides
    grad_output_gate::Strides
    grad_output::Strides
    state_in::StateStrides
    state_out::StateStrides
    grad_state_in::StateStrides
    grad_state_out::StateStrides
    state_pool::Int64
end

struct SelectiveDesc
    struct_size::UInt32
    dtype::Int32
    matrix_dtype::Int32
    layout::Int32
    direction::Int32
    flags::UInt32
    offsets_dtype::Int32
    reserved::Int32
    batch::Int64
    time::Int64
    channels::Int64
    states::Int64
    groups::Int64
    num_sequences::Int64
    input::Strides
    delta::Strides
    output_gate::Strides
    b::Strides
    c::Strides
    output::Strides
    grad_input::Strides
    grad_delta::Strides
    grad_output_gate::Strides
    grad_b::Strides
    grad_c::Strides
    grad_output::Strides
    state_in::StateStrides
    state_out::StateStrides
    grad_state_in::StateStrides
    grad_state_out::StateStrides
    state_pool::Int64
end

# Fields by name; those left out are 0, their default in C.
zero_field(T) = T <: Ptr ? T(C_NULL) : T <: Number ? zero(T) : T()
function by_name(@nospecialize(T), fields::Dict{Symbol,Any})
    unknown = setdiff(keys(fields), fieldnames(T))
    isempty(unknown) || throw(ArgumentError("$T has no field $(first(unknown)); accepted are $(fieldnames(T)[2:end])"))
    fields[:struct_size] = UInt32(sizeof(T))
    T(Any[get(() -> zero_field(type), fields, name) for (name, type) in zip(fieldnames(T), fieldtypes(T))]...)
end

"""
    LinearDesc(; dtype, batch, time, channels, fields...)
    RnnDesc(; dtype, batch, time, heads, head_dim, fields...)
    OperatorDesc(; dtype, kind, batch, time, channels, fields...)
    GatedDesc(; dtype, layer, batch, time, channels, fields...)
    SelectiveDesc(; dtype, batch, time, channels, states, fields...)

The descriptors of the C interface with its numbers; fields left out are 0, their default.
"""
LinearDesc(; fields...) = by_name(LinearDesc, Dict{Symbol,Any}(fields))::LinearDesc
RnnDesc(; fields...) = by_name(RnnDesc, Dict{Symbol,Any}(fields))::RnnDesc
OperatorDesc(; fields...) = by_name(OperatorDesc, Dict{Symbol,Any}(fields))::OperatorDesc
GatedDesc(; fields...) = by_name(GatedDesc, Dict{Symbol,Any}(fields))::GatedDesc
SelectiveDesc(; fields...) = by_name(SelectiveDesc, Dict{Symbol,Any}(fields))::SelectiveDesc
CustomOperator(; fields...) = by_name(CustomOperator, Dict{Symbol,Any}(fields))::CustomOperator

const FUNCTIONS = (:version, :status_name, :last_error, :device_count, :plan_linear, :plan_rnn, :plan_operator,
                   :plan_gated, :plan_selective, :plan_arg_bytes, :plan_describe, :execute, :plan_destroy)
const addresses = Dict{Symbol,Ptr{Cvoid}}()

function library_path()
    isempty(get(ENV, "FLASHSCAN_LIBRARY", "")) || return ENV["FLASHSCAN_LIBRARY"]
    haskey(ENV, "FLASHSCAN_LIB_DIR") && return joinpath(ENV["FLASHSCAN_LIB_DIR"], "libflashscan.so.1")
    packaged = joinpath(@__DIR__, "..", "..", "..", "..", "lib", "libflashscan.so.1")  # of the Python package it came with
    isfile(packaged) ? packaged : "libflashscan.so.1"
end

function __init__()
    path = library_path()
    library = dlopen(path; throw_error = false)
    library === nothing && error("libflashscan could not be loaded from $path; FLASHSCAN_LIBRARY may name another file")
    for name in FUNCTIONS
        addresses[name] = dlsym(library, Symbol(:flashscan_, name))
    end
end

"The version of the library that is loaded."
function version()
    number = ccall(addresses[:version], Int32, ())
    VersionNumber(number ÷ 10000, number ÷ 100 % 100, number % 100)
end

"""
    FlashScanError

A refused or failed call: `status`, as `:INVALID_ARGUMENT`, and `sentence`, which names the argument or field, its value
and what is accepted.
"""
struct FlashScanError <: Exception
    status::Symbol
    sentence::String
end
Base.showerror(io::IO, error::FlashScanError) = print(io, "FlashScanError: ", error.sentence)

function check(status::Int32)
    status == 0 && return
    name = unsafe_string(ccall(addresses[:status_name], Ptr{UInt8}, (Int32,), status))
    sentence = unsafe_string(ccall(addresses[:last_error], Ptr{UInt8}, ()))
    throw(FlashScanError(Symbol(replace(name, "FLASHSCAN_STATUS_" => "")), sentence))
end

"The number of devices of a backend, `FlashScan.CPU` or `FlashScan.CUDA`."
function device_count(backend = CUDA)
    count = Ref{Int32}(0)
    check(ccall(addresses[:device_count], Int32, (Int32, Ref{Int32}), backend, count))
    Int(count[])
end
