# SPDX-License-Identifier: Apache-2.0

"""
    BFloat16(x)

A 16-bit number with the exponent of `Float32`, as data: convert to and from `Float32` to compute. A type of another
package takes its place with `FlashScan.dtype(::Type{TheirBFloat16}) = FlashScan.BF16`.
"""
struct BFloat16 <: AbstractFloat
    bits::UInt16
    BFloat16(bits::UInt16, ::Val{:bits}) = new(bits)
end
function BFloat16(x::Real)
    bits = reinterpret(UInt32, Float32(x))
    isnan(x) && return BFloat16(UInt16(bits >> 16) | 0x0040, Val(:bits))
    BFloat16(((UInt64(bits) + 0x7fff + (bits >> 16 & 1)) >> 16) % UInt16, Val(:bits))
end
BFloat16(x::BFloat16) = x
Base.Float32(x::BFloat16) = reinterpret(Float32, UInt32(x.bits) << 16)
Base.Float64(x::BFloat16) = Float64(Float32(x))
Base.promote_rule(::Type{BFloat16}, ::Type{T}) where {T<:Union{Float32,Float64}} = T
Base.show(io::IO, x::BFloat16) = print(io, "BFloat16(", Float32(x), ")")

"The number of a type in the C interface."
dtype(::Type{Float32}) = F32
dtype(::Type{BFloat16}) = BF16
dtype(::Type{Float16}) = F16
dtype(::Type{Float64}) = F64
dtype(::Type{ComplexF32}) = C64
dtype(::Type{ComplexF64}) = C128
dtype(::Type{Int32}) = I32
dtype(::Type{Int64}) = I64
dtype(::Type{UInt8}) = U8
dtype(::Type{T}) where {T} = throw(ArgumentError("elements are $T; accepted are Float32, BFloat16, Float16, Float64, " *
                                                 "ComplexF32, ComplexF64, and for operators Int32, Int64 and UInt8"))

"The type of states: `Float32` for 16-bit types, else the type itself."
state_type(::Type{T}) where {T} = dtype(T) in (BF16, F16) ? Float32 : T

offsets_dtype(::Type{Int32}) = I32
offsets_dtype(::Type{Int64}) = I64
