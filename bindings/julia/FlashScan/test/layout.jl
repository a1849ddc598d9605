# SPDX-License-Identifier: Apache-2.0
# The mirrors against the pins of the C tests, and constants against the header.

const root = normpath(joinpath(@__DIR__, "..", "..", "..", ".."))
const mirrors = Dict("flashscan_arg" => FlashScan.Arg, "flashscan_options" => FlashScan.COptions,
                     "flashscan_strides" => FlashScan.Strides,
                     "flashscan_state_strides" => FlashScan.StateStrides, "flashscan_linear_desc" => LinearDesc,
                     "flashscan_rnn_desc" => RnnDesc, "flashscan_operator_desc" => OperatorDesc,
                     "flashscan_gated_desc" => GatedDesc, "flashscan_selective_desc" => SelectiveDesc,
                     "flashscan_custom_operator" => FlashScan.CustomOperator)

@testset "layout" begin
    pins = collect(eachmatch(r"^PIN_FIELD\((\w+), (\w+), (\d+)\);"m, read(joinpath(root, "tests/abi/layout.c"), String)))
    # Structs that the package does not call for have no mirror.
    filter!(pin -> haskey(mirrors, pin[1]), pins)
    @test length(pins) == sum(length(fieldnames(mirror)) for mirror in values(mirrors))
    for pin in pins
        mirror = mirrors[pin[1]]
        @test isbitstype(mirror)
        index = findfirst(isequal(Symbol(pin[2])), fieldnames(mirror))
        @test index !== nothing && fieldoffset(mirror, index) == parse(Int, pin[3])
    end
    @test sizeof(LinearDesc) == 288 && sizeof(RnnDesc) == 152 && sizeof(OperatorDesc) == 144
    @test sizeof(GatedDesc) == 464 && sizeof(SelectiveDesc) == 440
    exported = readlines(joinpath(root, "tests/abi/exports.txt"))
    @test issubset(["flashscan_$name" for name in FlashScan.FUNCTIONS], exported)
end

@testset "constants" begin
    header = read(joinpath(root, "include/flashscan/flashscan.h"), String)
    number(name) = parse(Int, match(Regex("\\bFLASHSCAN_$name = *\n? *(0x\\w+|\\d+)"), header)[1])
    same(name, value) = number(name) == value
    words(prefix, names, first) = all(same(prefix * uppercase(String(name)), first + i - 1) for (i, name) in enumerate(names))
    @test all(same("ARG_" * uppercase(String(name)), id) for (name, id) in pairs(FlashScan.ARGUMENTS))
    @test words("DTYPE_", (:F32, :BF16, :F16, :F64, :C64, :C128, :I32, :I64, :U8), FlashScan.F32) && FlashScan.U8 - FlashScan.F32 == 8
    @test same("BACKEND_CPU", FlashScan.CPU) && same("BACKEND_CUDA", FlashScan.CUDA)
    for name in (:GRAD, :PASS_FORWARD, :PASS_BACKWARD, :DETERMINISM_RUN_TO_RUN, :DETERMINISM_BATCH_INVARIANT,
                 :OPERATOR_CUSTOM, :MODE_REDUCTION, :LINEAR_FLAG_RESET, :RNN_FLAG_RESET, :RNN_FLAG_ALL_STATES, :RNN_FLAG_TRAINING,
                 :RNN_FLAG_ALLOW_TF32, :GATED_INPUT_GATE_SIGMOID, :GATED_FLAG_RESET, :GATED_FLAG_FIRST_STEP, :SELECTIVE_FLAG_RESET,
                 :SELECTIVE_FLAG_SOFTPLUS, :SELECTIVE_FLAG_B_PER_STEP, :SELECTIVE_FLAG_C_PER_STEP)
        @test same(String(name), getfield(FlashScan, name))
    end
    @test words("CELL_", FlashScan.CELLS, FlashScan.FIRST_CELL)
    # Every operator of the header has its word, but for custom ones, which are functions.
    operators = Dict(Symbol(lowercase(found[1])) => parse(Int, found[2])
                     for found in eachmatch(r"\bFLASHSCAN_OPERATOR_(\w+) = (\d+),?$"m, header))
    @test pop!(operators, :custom) == FlashScan.OPERATOR_CUSTOM
    @test operators == Dict(pairs(FlashScan.KINDS))
    @test words("GATED_LAYER_", FlashScan.GATED_LAYERS, FlashScan.FIRST_LAYER)
    @test words("GATED_DECAY_", FlashScan.DECAYS, FlashScan.FIRST_DECAY)
    @test words("GATED_SCALE_", FlashScan.SCALES, FlashScan.FIRST_SCALE)
    @test words("GATED_ACTIVATION_", FlashScan.ACTIVATIONS, FlashScan.FIRST_ACTIVATION)
    @test words("GATED_EPILOGUE_", FlashScan.EPILOGUES, FlashScan.FIRST_EPILOGUE)
    @test words("GATE_", FlashScan.GATE_FORMS, FlashScan.FIRST_GATE_FORM)
    @test words("MODE_", FlashScan.MODES, FlashScan.FIRST_MODE)
    @test words("LAYOUT_", (:BTC, :BCT), FlashScan.FIRST_LAYOUT)
    @test words("LAYOUT_", (:BTGHD, :TBGHD), FlashScan.FIRST_RNN_LAYOUT)
    @test [number("DIRECTION_FORWARD"), number("DIRECTION_REVERSE")] == FlashScan.is_reverse.([false, true])
    @test [number("BROADCAST_BATCH"), number("BROADCAST_TIME"), number("BROADCAST_CHANNELS")] == [1, 2, 4]
end
