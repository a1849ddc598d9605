# SPDX-License-Identifier: Apache-2.0
# What the functions on arrays share.

const SOMETHING = Union{Nothing,AbstractArray}

# Anything with memory of its own stays where it is.
in_memory(x::StridedArray) = x
in_memory(x::AbstractArray) = Array(x)
in_memory(::Nothing) = nothing
# Where strides cannot be passed on.
dense(x::DenseArray) = x
dense(x::AbstractArray) = Array(x)
dense(::Nothing) = nothing

# Memory for a result. What lies behind the last of packed sequences the library does not write: it is 0.
function fresh(::Type{T}, size, offsets) where {T}
    array = Array{T}(undef, size)
    offsets === nothing || fill!(reinterpret(UInt8, vec(array)), 0x00)
    array
end

# The number of a direction.
is_reverse(reverse) = Int32(reverse ? 402 : 401)

# Sequences and their offsets as descriptor fields. Offsets count from 0.
packed(::Nothing) = (num_sequences = 0, offsets_dtype = Int32(0))
packed(offsets::AbstractVector{T}) where {T<:Union{Int32,Int64}} =
    (num_sequences = length(offsets) - 1, offsets_dtype = offsets_dtype(T))
packed(offsets) = throw(ArgumentError("offsets are a $(typeof(offsets)); accepted is a vector of Int32 or Int64"))

# How many rows states have: a pool, which `indices` belong to, as many as it has along `axis`, others those of sequences.
state_rows(::Nothing, state, axis, batch, offsets, sequences) = offsets === nothing ? batch : sequences.num_sequences
state_rows(indices, state, axis, batch, offsets, sequences) = size(state, axis)
# The descriptor's field for that.
pool(::Nothing, rows) = (state_pool = 0,)
pool(indices, rows) = (state_pool = rows,)

bytes_of(::Nothing) = nothing
bytes_of(reset::AbstractArray) = reinterpret_bytes(Array{Bool}(reset))
reinterpret_bytes(flags::Array{Bool}) = UInt8.(flags)

function expect_size(name, array, expected)
    size(array) == expected ||
        throw(DimensionMismatch("$name has size $(size(array)); expected is $expected"))
    array
end
expect_size(_, ::Nothing, _) = nothing
expect_type(name, ::Nothing, _) = nothing
function expect_type(name, array, T)
    eltype(array) == T || throw(ArgumentError("$name holds $(eltype(array)); accepted is $T"))
    array
end

# The number of a word, of those with numbers or of consecutive ones from `first` on.
function number_of(what, word, numbers::NamedTuple)
    word in keys(numbers) ||
        throw(ArgumentError("$what is $(repr(word)); accepted are $(join(repr.(keys(numbers)), ", "))"))
    Int32(numbers[word])
end
number_of(what, word, words, first) =
    number_of(what, word, NamedTuple{words}(ntuple(i -> first + i - 1, length(words))))
