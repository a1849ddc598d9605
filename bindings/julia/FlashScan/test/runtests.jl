# SPDX-License-Identifier: Apache-2.0
using FlashScan, Test

include("json.jl")

@testset "FlashScan" begin
    include("layout.jl")
    include("golden.jl")
    include("functions.jl")
    include("layers.jl")
    include("steps.jl")
    @testset "the library that the environment names" begin
        path(file, folder) = withenv(FlashScan.library_path, "FLASHSCAN_LIBRARY" => file, "FLASHSCAN_LIB_DIR" => folder)
        @test path("/a/library.so", "/b") == path("/a/library.so", nothing) == "/a/library.so"
        @test path("", "/b") == path(nothing, "/b") == "/b/libflashscan.so.1"
        @test path("", nothing) == path(nothing, nothing)
    end
    @testset "the example" begin
        @test abs(include("../examples/filter.jl") - 0.97) <= 1e-3
    end
end
