# SPDX-License-Identifier: Apache-2.0
# Scans with a Julia function. The library calls back on the thread that executes the plan, once per level of a tree.

mutable struct Callback{F,T}
    combine::F
    failure::Any
    Callback{F,T}(combine) where {F,T} = new{F,T}(combine, nothing)
end

# No exception may pass through the library: it is kept, and thrown where the call came from.
function combine_pairs(state::Ptr{Cvoid}, lhs::Ptr{UInt8}, lhs_stride::Int64, rhs::Ptr{UInt8}, rhs_stride::Int64,
                       out::Ptr{UInt8}, out_stride::Int64, count::Int64, stream::Ptr{Cvoid})
    callback = unsafe_pointer_to_objref(state)
    try
        combine_typed(callback, lhs, lhs_stride, rhs, rhs_stride, out, out_stride, count)
        Int32(0)
    catch failure
        callback.failure = failure
        Int32(1)
    end
end

function combine_typed(callback::Callback{F,T}, lhs, lhs_stride, rhs, rhs_stride, out, out_stride, count) where {F,T}
    for i in 0:count-1
        left = unsafe_load(Ptr{T}(lhs + i * lhs_stride))
        right = unsafe_load(Ptr{T}(rhs + i * rhs_stride))
        unsafe_store!(Ptr{T}(out + i * out_stride), convert(T, callback.combine(left, right))::T)
    end
end

function run_custom(combine::F, x::AbstractArray{T}, mode, state, layout, reverse, offsets, options) where {F,T}
    isbitstype(T) || throw(ArgumentError("elements are $T; a function scans elements of an isbits type"))
    layout_number = number_of("layout", layout, OPERATOR_LAYOUTS, FIRST_LAYOUT)
    channels, time, batch = outer_axes(x, 0, layout)
    sequences = packed(offsets)
    state_size = (channels, offsets === nothing ? batch : sequences.num_sequences)
    expect_size("state", state, state_size)
    expect_type("state", state, T)
    callback = Callback{F,T}(combine)
    trampoline = @cfunction(combine_pairs, Int32, (Ptr{Cvoid}, Ptr{UInt8}, Int64, Ptr{UInt8}, Int64, Ptr{UInt8}, Int64, Int64,
                                              Ptr{Cvoid}))
    operator = Ref(CustomOperator(element_bytes = sizeof(T), state = pointer_from_objref(callback), batched = trampoline))
    input, state, offsets = dense(x), dense(state), dense(offsets)
    output, final = fresh(T, mode === :reduction ? state_size : size(x), offsets), fresh(T, state_size, offsets)
    GC.@preserve callback operator input output state final offsets begin
        desc = OperatorDesc(; kind = OPERATOR_CUSTOM, layout = layout_number, mode = number_of("mode", mode, MODES, FIRST_MODE),
                            direction = is_reverse(reverse), batch = batch, time = time, channels = channels,
                            custom = Base.unsafe_convert(Ptr{CustomOperator}, operator), sequences...)
        plan = Plan(desc, options; keep = callback)
        given = (input = input, output = output, state_in = state, state_out = final, seq_offsets = offsets)
        try
            execute(PASS_FORWARD, plan, [name => bytes_and_pointer(value) for (name, value) in pairs(given)], C_NULL)
        catch
            callback.failure === nothing && rethrow()
            throw(callback.failure)
        end
    end
    output, final
end

# Elements of a custom operator have no dtype of the library.
bytes_and_pointer(::Nothing) = nothing
bytes_and_pointer(array) = (Ptr{Cvoid}(pointer(array)), Int(sizeof(array)))

# Functions that the library has a kernel for.
named(op, ::Type) = nothing
const LibraryInteger = Union{Int32,Int64,UInt8}
const LibraryNumber = Union{Float16,Float32,Float64,BFloat16,ComplexF32,ComplexF64,LibraryInteger}
named(::typeof(+), ::Type{<:LibraryNumber}) = :add
named(::typeof(*), ::Type{<:LibraryNumber}) = :mul
named(::typeof(min), ::Type{<:LibraryNumber}) = :min
named(::typeof(max), ::Type{<:LibraryNumber}) = :max
named(::typeof(&), ::Type{<:LibraryInteger}) = :and
named(::typeof(|), ::Type{<:LibraryInteger}) = :or
named(::typeof(xor), ::Type{<:LibraryInteger}) = :xor

function prefix_scan(op, x::AbstractArray; exclusive = false, state = nothing, layout = :ctb, reverse = false,
                     offsets = nothing, final_state = false, options = Options())
    name = named(op, eltype(x))
    if name !== nothing
        return prefix_scan(name, x; exclusive = exclusive, state = state, layout = layout, reverse = reverse,
                           offsets = offsets, final_state = final_state, options = options)
    end
    mode = exclusive ? :exclusive : :inclusive
    y, final = run_custom(op, x, mode, state, layout, reverse, offsets, options)
    final_state ? (y, final) : y
end

function reduce_scan(op, x::AbstractArray; state = nothing, layout = :ctb, reverse = false, offsets = nothing,
                     options = Options())
    name = named(op, eltype(x))
    if name !== nothing
        return reduce_scan(name, x; state = state, layout = layout, reverse = reverse, offsets = offsets, options = options)
    end
    isempty(x) && state === nothing && offsets === nothing && throw(ArgumentError(
        "x has size $(size(x)); accepted without a state are arrays of one step or more, since a function has no identity"))
    run_custom(op, x, :reduction, state, layout, reverse, offsets, options)[1]
end
