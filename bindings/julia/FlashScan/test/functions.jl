# SPDX-License-Identifier: Apache-2.0
# What the functions promise besides the golden cases: Julia's axes, views, errors, callbacks, threads, finalizers.

function sentence(f)
    try
        f()
        ""
    catch error
        sprint(showerror, error)
    end
end

@testset "axes of linear_scan" begin
    gate, x = rand(3, 5, 2), rand(3, 5, 2)
    h = linear_scan(gate, x)
    @test h[:, 1, :] == x[:, 1, :]
    @test h[:, 3, :] ≈ gate[:, 3, :] .* h[:, 2, :] .+ x[:, 3, :]
    turned(a) = permutedims(a, (2, 1, 3))
    @test linear_scan(turned(gate), turned(x); layout = :tcb) ≈ turned(h)
    @test linear_scan(gate[:, :, 1], x[:, :, 1]) ≈ h[:, :, 1]
    @test linear_scan(gate[1, :, 1], x[1, :, 1]) ≈ h[1, :, 1]
    # A step back in time.
    @test linear_scan(gate, x; reverse = true)[:, 4, :] ≈ gate[:, 4, :] .* x[:, 5, :] .+ x[:, 4, :]
    # Broadcast gates, and views in place: every second channel, steps 2 to 4.
    @test linear_scan(gate[:, 1:1, 1:1], x) ≈ linear_scan(gate[:, 1:1, 1:1] .+ zero(x), x)
    @test linear_scan(view(gate, 1:2:3, 2:4, :), view(x, 1:2:3, 2:4, :)) ≈ linear_scan(gate[1:2:3, 2:4, :], x[1:2:3, 2:4, :])
    (h, final), back = linear_scan_pullback(gate, x; state = ones(3, 2), reset = [false true false false true; falses(1, 5)]')
    @test final == h[:, 5, :]
    @test h[:, 5, 1] == x[:, 5, 1]
    @test all(iszero, back(ones(3, 5, 2))[1][:, 2, 1])
end

@testset "gradients of linear_scan" begin
    gate, x, weights = rand(2, 4, 2), rand(2, 4, 2), rand(2, 4, 2)
    loss(gate, x) = sum(weights .* linear_scan(gate, x))
    _, back = linear_scan_pullback(gate, x)
    grad_gate, grad_x, grad_state = back(weights)
    @test grad_state === nothing
    for i in (1, 5, 12)
        step = zero(x)
        step[i] = 1e-6
        @test grad_gate[i] ≈ (loss(gate + step, x) - loss(gate - step, x)) / 2e-6 rtol = 1e-6
        @test grad_x[i] ≈ (loss(gate, x + step) - loss(gate, x - step)) / 2e-6 rtol = 1e-6
    end
end

@testset "steps behind the last of packed sequences are 0" begin
    behind(array) = selectdim(array, ndims(array), 3:50)
    offsets, x, ones50 = [0, 2], rand(3, 50), ones(3, 50)
    for back in (linear_scan_pullback(x, x; offsets = offsets), gated_scan_pullback(x, x; layer = :mingru, offsets = offsets),
                 prefix_scan_pullback(:mul, x; offsets = offsets))
        (h, _), back = back
        @test all(iszero, behind(h))
        @test all(all(iszero, behind(grad)) for grad in back(ones50) if grad isa AbstractArray && size(grad) == size(h))
    end
    (y, _), back = selective_scan_pullback(x, x, -ones(2, 3), rand(2, 50, 1), rand(2, 50, 1); offsets = offsets)
    grads = back(ones50)
    @test all(all(iszero, each[:, 3:50, :]) for each in (y, grads.u, grads.delta, grads.B, grads.C))
    (h, _), back = rnn_pullback(:elman, rand(3, 1, 1, 50, 1), rand(3, 3, 1, 1); offsets = offsets)
    @test all(iszero, h[:, :, 3:50, :]) && all(iszero, back(ones(size(h)))[1][:, :, :, 3:50, :])
    states = affine_scan(rand(2, 2, 1, 50), rand(2, 1, 50); offsets = offsets)
    @test all(iszero, states[:, :, 3:50])
    @test all(iszero, indexed_scan(max, x; offsets = offsets)[2][:, 3:50])
    @test all(iszero, prefix_scan((l, r) -> l + r, x; offsets = offsets)[:, 3:50])
    @test occursin("no identity", sentence(() -> reduce_scan((l, r) -> l + r, zeros(3, 0))))
end

@testset "the header's matrices are transposes" begin
    input, weight = rand(3, 2, 1, 4, 1), rand(3, 3, 2, 1)
    output, final = rnn(:elman, input, weight)
    h = output[:, 2, 1, 1]
    @test output[:, 2, 2, 1] ≈ tanh.(input[:, 2, 1, 2, 1] .+ transpose(weight[:, :, 2, 1]) * h)
    x = rand(2, 2, 1, 3, 1)
    y = prefix_scan(:matmul, x)
    @test y[:, :, 1, 3, 1] ≈ x[:, :, 1, 3, 1] * x[:, :, 1, 2, 1] * x[:, :, 1, 1, 1]
    W, b = rand(2, 2, 1, 3, 1), rand(2, 1, 3, 1)
    states = affine_scan(W, b)
    @test states[:, 1, 2, 1] ≈ transpose(W[:, :, 1, 2, 1]) * states[:, 1, 1, 1] .+ b[:, 1, 2, 1]
end

@testset "operators" begin
    x = [3.0, 1.0, 4.0, 1.0, 5.0]
    @test prefix_scan(+, x) == cumsum(x) && prefix_scan(*, x) == cumprod(x)
    @test prefix_scan(max, x) == accumulate(max, x) && reduce_scan(min, x) == fill(1.0, 1, 1)
    @test prefix_scan(+, x; exclusive = true) == [0; cumsum(x)[1:4]]
    @test indexed_scan(max, x) == (accumulate(max, x), accumulate((i, j) -> x[j] > x[i] ? j : i, eachindex(x)))
    @test indexed_scan(:min, x; exclusive = true, state = fill(-1.0, 1, 1), final_state = true)[2] == zeros(length(x))
    @test indexed_reduce(min, x) == (fill(minimum(x), 1, 1), fill(argmin(x), 1, 1))
    @test occursin("min and max", sentence(() -> indexed_scan(+, x)))
    @test occursin("min and max", sentence(() -> indexed_reduce(:add, x)))
    @test prefix_scan(:logaddexp, x)[2] ≈ log(exp(3) + exp(1))
    @test prefix_scan((l, r) -> 10l + r, [1, 2]) == [1, 12]
    for T in (Int32, Int64, UInt8)
        whole = T[3, 100, 9, 120]
        for op in (+, *, min, max, &, |, xor)
            @test prefix_scan(op, whole)::Vector{T} == accumulate((l, r) -> T(op(l, r) % T), whole)
        end
        @test reduce_scan(max, whole) == fill(T(120), 1, 1)
    end
    @test prefix_scan(+, [typemax(Int64), 1]) == [typemax(Int64), typemin(Int64)]
    @test prefix_scan(:and, UInt8[12, 10]; exclusive = true) == [0xff, 12]
    _, back = prefix_scan_pullback(:add, Int32[1, 2])
    @test occursin("integers have no gradients", sentence(() -> back(Int32[1, 1])))
    # Affine maps (scale, shift) do not commute; the earlier one is applied first.
    maps = [(0.5, 1.0), (0.5, 2.0), (2.0, 3.0)]
    compose(l, r) = (r[1] * l[1], r[1] * l[2] + r[2])
    @test prefix_scan(compose, maps) == accumulate(compose, maps)
    @test prefix_scan(compose, maps; reverse = true)[1] == compose(compose(maps[3], maps[2]), maps[1])
    @test reduce_scan(compose, repeat(maps, 50))[1] == reduce(compose, repeat(maps, 50))
    @test occursin("boom", sentence(() -> prefix_scan((l, r) -> error("boom"), maps)))
    @test occursin("isbits", sentence(() -> prefix_scan(*, ["a", "b"])))
end

@testset "errors" begin
    ones4 = ones(Float32, 4)
    @test occursin("(3,)", sentence(() -> linear_scan(ones(Float32, 3), ones4)))
    @test occursin("dtype is i64", sentence(() -> linear_scan(ones4, [1, 2, 3, 4])))
    @test occursin(":middle", sentence(() -> linear_scan(ones4, ones4; form = :middle)))
    @test occursin("offsets", sentence(() -> linear_scan(ones4, ones4; offsets = [0, 9])) |> lowercase)
    @test occursin("Float64", sentence(() -> linear_scan(ones4, ones4; state = ones(1, 1))))
    @test occursin("4 gates", sentence(() -> rnn(:gru, rand(2, 1, 4, 3, 1), rand(2, 2, 1, 4))))
    @test occursin("square", sentence(() -> prefix_scan(:matmul, rand(2, 3, 1, 4, 1))))
    @test occursin("no field width", sentence(() -> LinearDesc(width = 3)))
    error = try
        Plan(LinearDesc(dtype = FlashScan.F32, batch = -1))
    catch error
        error
    end
    @test error isa FlashScanError && error.status === :INVALID_ARGUMENT && occursin("batch is -1", error.sentence)
    plan = Plan(LinearDesc(dtype = FlashScan.F32, batch = 1, time = 4, channels = 1))
    short = sentence(() -> forward!(plan, :gate => ones4, :input => ones4[1:3], :output => similar(ones4)))
    @test occursin("INPUT has 12 bytes", short)
    @test occursin("Float64", sentence(() -> forward!(plan, :gate => ones(4), :input => ones4, :output => ones4)))
    @test occursin("weights", sentence(() -> forward!(plan, :weights => ones4)))
    @test occursin("nonesuch", sentence(() -> linear_scan(ones4, ones4; options = Options(kernel = "nonesuch"))))
end

@testset "plans" begin
    options = Options(kernel = "reference", threads = 1)
    plan = Plan(LinearDesc(dtype = FlashScan.F32, batch = 1, time = 4, channels = 1), options)
    @test occursin("kernel reference", describe(plan)) && !('\0' in describe(plan))
    @test FlashScan.arg_bytes(plan, FlashScan.PASS_FORWARD, :output) == 16
    h = zeros(Float32, 4)
    forward!(plan, :gate => fill(0.5f0, 4), :input => ones(Float32, 4), :output => h, :state_in => nothing)
    @test h == [1, 1.5, 1.75, 1.875]
    results = zeros(4)
    Threads.@threads for i in 1:4
        results[i] = linear_scan(fill(0.5, 100), ones(100); options = Options(threads = 1))[100]
    end
    @test all(results .≈ 2)
    for _ in 1:1000
        Plan(plan.desc)
    end
    GC.gc()
    @test v"1.0" <= FlashScan.version() < v"2-" && FlashScan.device_count(FlashScan.CPU) == 1
end

@testset "BFloat16" begin
    @test Float32(BFloat16(1 + 1 / 256)) == 1 && Float32(BFloat16(1 + 3 / 256)) == 1 + 1 / 64
    @test isnan(Float32(BFloat16(NaN))) && Float32(BFloat16(-Inf)) == -Inf
    h = linear_scan(fill(0.5f0, 4), BFloat16.(ones(4)))
    @test eltype(h) == BFloat16 && Float32.(h) == [1, 1.5, 1.75, 1.875]
end
