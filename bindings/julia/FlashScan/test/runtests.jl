# SPDX-License-Identifier: Apache-2.0
using FlashScan, Test

include("json.jl")

@testset "FlashScan" begin
    include("layout.jl")
    include("golden.jl")
    include("functions.jl")
    include("layers.jl")
    include("steps.jl")
    @testset "the example" begin
        @test abs(include("../examples/filter.jl") - 0.97) <= 1e-3
    end
end
