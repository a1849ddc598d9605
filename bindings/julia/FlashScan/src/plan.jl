# SPDX-License-Identifier: Apache-2.0

"""
    Options(; backend = FlashScan.CPU, device = 0, threads = 0, batch_invariant = false, kernel = "")

How a plan runs: `threads` of the CPU, 0 for all; `kernel` forces one by its name in [`describe`](@ref).
"""
struct Options
    backend::Int32
    device::Int32
    threads::Int32
    batch_invariant::Bool
    kernel::String
end
Options(; backend = CPU, device = 0, threads = 0, batch_invariant = false, kernel = "") =
    Options(backend, device, threads, batch_invariant, kernel)

"""
    Plan(desc, options = Options())

A plan of the C interface for a [`LinearDesc`](@ref) or one of the other descriptors, checked once and executed any number
of times with [`forward!`](@ref) and [`backward!`](@ref), from any thread. It is freed with its last reference.

    desc = LinearDesc(dtype = FlashScan.F32, batch = 1, time = 4, channels = 1)
    plan = Plan(desc)
    h = zeros(Float32, 1, 4, 1)                    # [B, T, C] of the header, reversed
    forward!(plan, :gate => fill(0.5f0, 1, 4, 1), :input => ones(Float32, 1, 4, 1), :output => h)
"""
mutable struct Plan{Desc}
    handle::Ptr{Cvoid}
    desc::Desc
    backend::Int32
    keep::Any  # what the plan's callbacks use
    function Plan(desc::Desc, options::Options = Options(); keep = nothing) where {Desc}
        '\0' in options.kernel && throw(ArgumentError("a kernel's name holds no zero byte"))
        handle = Ref{Ptr{Cvoid}}(C_NULL)
        kernel = options.kernel
        GC.@preserve kernel keep begin
            name = isempty(kernel) ? Ptr{UInt8}(C_NULL) : pointer(kernel)
            how = COptions(sizeof(COptions), options.backend, options.device, options.threads,
                           options.batch_invariant ? DETERMINISM_BATCH_INVARIANT : DETERMINISM_RUN_TO_RUN, 0, name, C_NULL, C_NULL,
                           C_NULL, C_NULL)
            check(ccall(create_address(Desc), Int32, (Ref{Ptr{Cvoid}}, Ref{Desc}, Ref{COptions}), handle, desc, how))
        end
        plan = new{Desc}(handle[], desc, options.backend, keep)
        finalizer(p -> ccall(addresses[:plan_destroy], Cvoid, (Ptr{Cvoid},), p.handle), plan)
    end
end
create_address(::Type{LinearDesc}) = addresses[:plan_linear]
create_address(::Type{RnnDesc}) = addresses[:plan_rnn]
create_address(::Type{OperatorDesc}) = addresses[:plan_operator]
create_address(::Type{GatedDesc}) = addresses[:plan_gated]
create_address(::Type{SelectiveDesc}) = addresses[:plan_selective]

"""
    describe(plan)

The problem, the kernel and why it was chosen, and the candidates passed over, as text.
"""
function describe(plan::Plan)
    length = Ref{Csize_t}(0)
    text = UInt8[]
    for capacity in (0, 1)
        resize!(text, capacity == 0 ? 0 : length[] + 1)
        check(ccall(addresses[:plan_describe], Int32, (Ptr{Cvoid}, Ptr{UInt8}, Csize_t, Ref{Csize_t}), plan.handle,
                    text, sizeof(text), length))
    end
    String(text[1:end-1])
end

# :input or :grad_input as a number of the C interface.
function argument_id(name::Symbol)
    id = get(ARGUMENT_IDS, name, Int32(0))
    id != 0 || throw(ArgumentError("there is no argument $name; accepted are $(keys(ARGUMENTS)), and grad_ before them"))
    id
end
const ARGUMENT_IDS = Dict{Symbol,Int32}()
for (name, id) in pairs(ARGUMENTS)
    ARGUMENT_IDS[name] = id
    ARGUMENT_IDS[Symbol(:grad_, name)] = GRAD | id
end

"""
    arg_bytes(plan, pass, name)

The bytes that an argument needs, `pass` being `FlashScan.PASS_FORWARD` or `FlashScan.PASS_BACKWARD`.
"""
function arg_bytes(plan::Plan, pass, name::Symbol)
    bytes = Ref{Csize_t}(0)
    check(ccall(addresses[:plan_arg_bytes], Int32, (Ptr{Cvoid}, Int32, Int32, Ref{Csize_t}), plan.handle, pass,
                argument_id(name), bytes))
    Int(bytes[])
end

"""
    reserve(plan)

Memory for the argument `:reserve` of a training plan of a recurrent network, or of a gated layer with an epilogue, aligned
as it must be.
"""
function reserve(plan::Union{Plan{RnnDesc},Plan{GatedDesc}})
    bytes = arg_bytes(plan, PASS_FORWARD, :reserve)
    memory = Vector{UInt8}(undef, bytes + 255)
    first = Int(-reinterpret(Int, pointer(memory)) & 255)
    view(memory, first+1:first+bytes)
end

# The type that an argument's elements must have, as a number; 0 if any will do.
wide(dtype) = dtype in (BF16, F16) ? F32 : dtype
own_or(own, dtype) = own == 0 ? dtype : own
real_dtype(dtype) = dtype == C64 ? F32 : dtype == C128 ? F64 : dtype
state_dtype(desc) = wide(desc.dtype)
state_dtype(desc::SelectiveDesc) = own_or(desc.matrix_dtype, wide(desc.dtype))
# Of the arguments that differ from family to family.
function second_dtype(desc::LinearDesc, base)
    base == ARGUMENTS.gate ? own_or(desc.gate_dtype, desc.dtype) : Int32(0)
end
function second_dtype(desc::RnnDesc, base)
    base in (ARGUMENTS.weight, ARGUMENTS.bias) ? own_or(desc.weight_dtype, desc.dtype) : Int32(0)
end
second_dtype(desc::OperatorDesc, base) = base == ARGUMENTS.gate ? desc.dtype : Int32(0)
function second_dtype(desc::GatedDesc, base)
    base in (ARGUMENTS.gate, ARGUMENTS.second_gate) && return own_or(desc.gate_dtype, desc.dtype)
    base in (ARGUMENTS.param, ARGUMENTS.bias) ? own_or(desc.param_dtype, desc.dtype) : Int32(0)
end
function second_dtype(desc::SelectiveDesc, base)
    matrix = state_dtype(desc)
    base in (ARGUMENTS.d, ARGUMENTS.bias) && return real_dtype(matrix)
    per_step = base == ARGUMENTS.b ? SELECTIVE_FLAG_B_PER_STEP : base == ARGUMENTS.c ? SELECTIVE_FLAG_C_PER_STEP : UInt32(0)
    desc.flags & per_step != 0 && real_dtype(matrix) == matrix && return desc.dtype
    base in (ARGUMENTS.a, ARGUMENTS.b, ARGUMENTS.c) ? matrix : Int32(0)
end
const DATA_ARGUMENTS = (ARGUMENTS.input, ARGUMENTS.output, ARGUMENTS.input_gate, ARGUMENTS.output_gate, ARGUMENTS.delta)
function expected_dtype(desc, id)
    base = id & ~GRAD
    base == ARGUMENTS.seq_offsets && return own_or(desc.offsets_dtype, I64)
    base == ARGUMENTS.index && return I64
    base in (ARGUMENTS.state_in, ARGUMENTS.state_out) && return state_dtype(desc)
    base in DATA_ARGUMENTS ? desc.dtype : second_dtype(desc, base)
end

given_dtype(::Type{T}) where {T} = T in (Int32, Int64) ? offsets_dtype(T) : dtype(T)

function c_arg(plan::Plan, name::Symbol, @nospecialize(array))
    T = eltype(array)
    id = argument_id(name)
    expected = expected_dtype(plan.desc, id)
    if expected != 0 && given_dtype(T) != expected
        throw(ArgumentError("$name holds $T, which is dtype $(given_dtype(T)); the plan takes dtype $expected"))
    end
    plan.backend == CPU || throw(ArgumentError("$name is an array in host memory and the plan is for a GPU; accepted " *
                                               "is (pointer, bytes)"))
    Arg(id, 0, pointer(array), span(array) * sizeof(T))
end
c_arg(::Plan, name::Symbol, (data, bytes)::Tuple{Ptr{Cvoid},Int}) = Arg(argument_id(name), 0, data, bytes)

# Elements from the first to the last.
span(@nospecialize(array)) = isempty(array) ? 0 : 1 + sum((size(array) .- 1) .* strides(array))

# Compiled once for all types: a call is made of few instructions, and compiling it anew takes long.
function execute(pass::Int32, plan::Plan, @nospecialize(arguments), stream)
    given = Any[]
    args = Arg[]
    GC.@preserve given plan begin
        for (name, value) in arguments
            value === nothing && continue
            push!(given, value)
            push!(args, c_arg(plan, name, value))
        end
        check(ccall(addresses[:execute], Int32, (Ptr{Cvoid}, Int32, Ptr{Arg}, Int32, Ptr{Cvoid}), plan.handle, pass, args,
                    length(args), stream))
    end
end

"""
    forward!(plan, :input => x, :output => y, ...; stream = C_NULL)
    backward!(plan, :grad_output => dy, ...; stream = C_NULL)

Execute a plan. Arguments are named as in the C interface, in lower case, gradients with `grad_` before; an argument that is
`nothing` counts as left out. Values are arrays of the header's axes reversed, or `(pointer, bytes)`, for plans on a GPU in
its memory.
"""
forward!(plan::Plan, @nospecialize(arguments::Pair{Symbol}...); stream = C_NULL) =
    execute(PASS_FORWARD, plan, arguments, stream)
backward!(plan::Plan, @nospecialize(arguments::Pair{Symbol}...); stream = C_NULL) =
    execute(PASS_BACKWARD, plan, arguments, stream)
