# SPDX-License-Identifier: Apache-2.0
# The mirrors against the pins of the C tests, and constants against the header.

const root = normpath(joinpath(@__DIR__, "..", "..", "..", ".."))
const mirrors = Dict("flashscan_arg" => FlashScan.Arg, "flashscan_options" => FlashScan.COptions,
                     "flashscan_strides" => FlashScan.Strides, "flashscan_linear_desc" => LinearDesc,
                     "flashscan_rnn_desc" => RnnDesc, "flashscan_operator_desc" => OperatorDesc,
                     "flashscan_custom_operator" => FlashScan.CustomOperator)

@testset "layout" begin
    pins = collect(eachmatch(r"^PIN_FIELD\((\w+), (\w+), (\d+)\);"m, read(joinpath(root, "tests/abi/layout.c"), String)))
    @test length(pins) == sum(length(fieldnames(mirror)) for mirror in values(mirrors))
    for pin in pins
        mirror = mirrors[pin[1]]
        @test isbitstype(mirror)
        index = findfirst(isequal(Symbol(pin[2])), fieldnames(mirror))
        @test index !== nothing && fieldoffset(mirror, index) == parse(Int, pin[3])
    end
    @test sizeof(LinearDesc) == 216 && sizeof(RnnDesc) == 80 && sizeof(OperatorDesc) == 80
    exported = readlines(joinpath(root, "tests/abi/exports.txt"))
    @test sort(["flashscan_$name" for name in FlashScan.FUNCTIONS]) == sort(exported)
end

@testset "constants" begin
    header = read(joinpath(root, "include/flashscan/flashscan.h"), String)
    number(name) = parse(Int, match(Regex("\\bFLASHSCAN_$name = *\n? *(0x\\w+|\\d+)"), header)[1])
    words(prefix, names) = all(number(prefix * uppercase(String(name))) == i - 1 for (i, name) in enumerate(names))
    @test all(number("ARG_" * uppercase(String(name))) == id for (name, id) in pairs(FlashScan.ARGUMENTS))
    @test number("GRAD") == FlashScan.GRAD
    for name in (:F32, :BF16, :F16, :F64, :C64, :C128, :I32, :I64, :CPU, :CUDA, :PASS_FORWARD, :PASS_BACKWARD)
        @test number(String(name)) == getfield(FlashScan, name)
    end
    @test words("CELL_", FlashScan.CELLS)
    @test words("OPERATOR_", FlashScan.KINDS) && number("OPERATOR_CUSTOM") == 7
    @test words("GATE_", FlashScan.GATE_FORMS)
    @test [number("SCAN_INCLUSIVE"), number("SCAN_EXCLUSIVE"), number("REDUCTION")] == 0:2
    @test [number("RNN_RESET"), number("RNN_ALL_STATES"), number("RNN_TRAINING")] == [1, 2, 4]
    @test [number("BROADCAST_BATCH"), number("BROADCAST_TIME"), number("BROADCAST_CHANNELS")] == [1, 2, 4]
end
