# SPDX-License-Identifier: Apache-2.0
# Gated layers and selective scans against loops over their steps, and their gradients against differences.

sigmoid(x) = 1 / (1 + exp(-x))
positive(x) = x >= 0 ? x + 0.5 : sigmoid(x)

# h[t] = a[t] h[t-1] + v[t] along the second axis, from h before the first step.
function recurrence(a, v, h)
    all = similar(v)
    for t in axes(v, 2)
        h = a[:, t, :] .* h .+ v[:, t, :]
        all[:, t, :] = h
    end
    all, h
end

# A gradient against central differences of `loss` at some elements of `point`.
function is_slope(grad, loss, point)
    @test size(grad) == size(point)
    for i in unique(round.(Int, range(1, stop = length(point), length = 7)))
        step = zero(point)
        step[i] = 1e-5
        slope = (loss(point + step) - loss(point - step)) / 2e-5
        @test grad[i] ≈ slope rtol = 1e-6 atol = 1e-7
    end
end

@testset "gated layers with names" begin
    gate, second, x = randn(3, 5, 2), randn(3, 5, 2), randn(3, 5, 2)
    none = zeros(3, 2)
    z = sigmoid.(gate)
    h, final = gated_scan(gate, x; layer = :mingru, final_state = true)
    expected, last = recurrence(1 .- z, z .* positive.(x), none)
    @test h ≈ expected && final ≈ last
    a = z ./ (z .+ sigmoid.(second))
    @test gated_scan(gate, x; layer = :minlstm, second_gate = second) ≈ recurrence(a, (1 .- a) .* positive.(x), none)[1]
    # RG-LRU with its first steps, of which a reset makes more.
    param, bias, reset = randn(3), randn(3), [false false true false false; falses(1, 5)]'
    a = exp.(-2 .* log1p.(exp.(param)) .* sigmoid.(gate .+ bias))
    v = sigmoid.(second) .* x
    first = falses(3, 5, 2)
    first[:, 1, :] .= true
    first[:, 3, 1] .= true
    h = gated_scan(gate, x; layer = :rglru, input_gate = second, param = param, bias = bias, decay_rate = 2, reset = reset)
    @test h ≈ recurrence(ifelse.(first, 0, a), ifelse.(first, 1, sqrt.(1 .- a .^ 2)) .* v, none)[1]
    # Layouts, views in place, sequences one after another.
    turned(a) = permutedims(a, (2, 1, 3))
    whole = gated_scan(gate, x; layer = :gilr)
    @test gated_scan(turned(gate), turned(x); layer = :gilr, layout = :tcb) ≈ turned(whole)
    @test gated_scan(view(gate, 1:2:3, :, :), view(x, 1:2:3, :, :); layer = :gilr) ≈ whole[1:2:3, :, :]
    @test gated_scan(gate[1, :, 1], x[1, :, 1]; layer = :gilr) ≈ whole[1, :, 1]
    parts = gated_scan(gate[:, :, 1], x[:, :, 1]; layer = :gilr, offsets = [0, 2, 5])
    @test parts[:, 1:2] ≈ whole[:, 1:2, 1]
    @test parts[:, 3:5] ≈ gated_scan(gate[:, 3:5, 1], x[:, 3:5, 1]; layer = :gilr)
end

@testset "gated layers of parts" begin
    gate, x, input_gate, output_gate = randn(3, 5, 2), randn(3, 5, 2), randn(3, 5, 2), randn(3, 5, 2)
    param, bias, state = 0.2 .+ 0.6 .* rand(3), randn(3), randn(3, 2)
    parts = (decay = :lower_bound, scale = :one_minus, activation = :silu, epilogue = :tanh_sigmoid)
    run(; x = x, gate = gate, others...) =
        gated_scan(gate, x; parts..., final_state = true, input_gate = input_gate, output_gate = output_gate,
                   param = param, bias = bias, state = state, others...)
    y, final = run()
    a = param .+ (1 .- param) .* sigmoid.(gate .+ bias)
    h, last = recurrence(a, (1 .- a) .* x .* sigmoid.(x) .* sigmoid.(input_gate), state)
    @test y ≈ tanh.(h) .* sigmoid.(output_gate) && final ≈ last
    # Gradients of all that there is.
    weights, last_weights = randn(3, 5, 2), randn(3, 2)
    loss(; others...) = (result = run(; others...); sum(weights .* result[1]) + sum(last_weights .* result[2]))
    result, back = gated_scan_pullback(gate, x; parts..., input_gate = input_gate, output_gate = output_gate, param = param,
                                       bias = bias, state = state)
    @test result == (y, final)
    grads = back(weights, last_weights)
    @test keys(grads) == (:gate, :x, :second_gate, :input_gate, :output_gate, :param, :bias, :state)
    @test grads.second_gate === nothing
    is_slope(grads.gate, moved -> loss(gate = moved), gate)
    is_slope(grads.x, moved -> loss(x = moved), x)
    is_slope(grads.input_gate, moved -> loss(input_gate = moved), input_gate)
    is_slope(grads.output_gate, moved -> loss(output_gate = moved), output_gate)
    is_slope(grads.param, moved -> loss(param = moved), param)
    is_slope(grads.bias, moved -> loss(bias = moved), bias)
    is_slope(grads.state, moved -> loss(state = moved), state)
    @test back(weights, last_weights) == grads
    # Without an epilogue, and with the input itself as the value.
    _, back = gated_scan_pullback(gate, x; decay = :sigmoid)
    is_slope(back(weights).gate, moved -> sum(weights .* gated_scan(moved, x; decay = :sigmoid)), gate)
    _, back = gated_scan_pullback(view(gate, :, 2:4, :), view(x, :, 2:4, :); layer = :gilr)
    _, dense_back = gated_scan_pullback(gate[:, 2:4, :], x[:, 2:4, :]; layer = :gilr)
    @test back(weights[:, 2:4, :]).x ≈ dense_back(weights[:, 2:4, :]).x
end

@testset "types and errors of gated layers" begin
    h = gated_scan(ones(Float32, 2), BFloat16.(ones(2)); decay = :sigmoid, bias = [-1.0f0])
    @test eltype(h) == BFloat16 && Float32.(h) == [1, 1.5]
    x = ones(4)
    @test occursin("neither layer nor decay", sentence(() -> gated_scan(x, x)))
    @test occursin(":minigru", sentence(() -> gated_scan(x, x; layer = :minigru)))
    @test occursin("SECOND_GATE", sentence(() -> gated_scan(x, x; layer = :minlstm)))
    @test occursin("(3,)", sentence(() -> gated_scan(ones(3), x; layer = :mingru)))
    @test occursin("param has size (4,)", sentence(() -> gated_scan(x, x; layer = :hgrn, param = x)))
    @test occursin("scale", sentence(() -> gated_scan(x, x; layer = :mingru, scale = :sqrt)))
end

# One channel and batch entry after the other, one state after the other.
function selective_steps(u, delta, A, B, C; D, z, bias, state)
    groups, per_group = size(B, 2), size(u, 1) ÷ size(B, 2)
    y, h = similar(u), copy(state)
    for b in axes(u, 3), t in axes(u, 2), c in axes(u, 1)
        d, g = log1p(exp(delta[c, t, b] + bias[c])), (c - 1) ÷ per_group + 1
        sum = D[c] * u[c, t, b]
        for n in axes(A, 1)
            h[n, c, b] = exp(d * A[n, c]) * h[n, c, b] + d * B[n, g, t, b] * u[c, t, b]
            sum += C[n, g, t, b] * h[n, c, b]
        end
        y[c, t, b] = sum * z[c, t, b] * sigmoid(z[c, t, b])
    end
    y, h
end

@testset "selective scans" begin
    u, delta, z = randn(4, 5, 2), randn(4, 5, 2), randn(4, 5, 2)
    A, B, C = -0.1 .- rand(3, 4), randn(3, 2, 5, 2), randn(3, 2, 5, 2)
    D, bias, state = randn(4), randn(4), randn(3, 4, 2)
    run(; u = u, delta = delta, A = A, B = B, C = C, others...) =
        selective_scan(u, delta, A, B, C; D = D, z = z, bias = bias, softplus = true, state = state, final_state = true,
                       others...)
    y, final = run()
    expected, last = selective_steps(u, delta, A, B, C; D = D, z = z, bias = bias, state = state)
    @test y ≈ expected && final ≈ last
    # Gradients of all that there is.
    weights, last_weights = randn(4, 5, 2), randn(3, 4, 2)
    loss(; others...) = (result = run(; others...); sum(weights .* result[1]) + sum(last_weights .* result[2]))
    result, back = selective_scan_pullback(u, delta, A, B, C; D = D, z = z, bias = bias, softplus = true, state = state)
    @test result == (y, final)
    grads = back(weights, last_weights)
    is_slope(grads.u, moved -> loss(u = moved), u)
    is_slope(grads.delta, moved -> loss(delta = moved), delta)
    is_slope(grads.A, moved -> loss(A = moved), A)
    is_slope(grads.B, moved -> loss(B = moved), B)
    is_slope(grads.C, moved -> loss(C = moved), C)
    is_slope(grads.D, moved -> loss(D = moved), D)
    is_slope(grads.z, moved -> loss(z = moved), z)
    is_slope(grads.bias, moved -> loss(bias = moved), bias)
    is_slope(grads.state, moved -> loss(state = moved), state)
    # Time next to each other, one group without its axis, views in place.
    turned(a) = permutedims(a, (2, 1, 3))
    steps(a) = permutedims(a, (3, 1, 2, 4))
    @test run(u = turned(u), delta = turned(delta), B = steps(B), C = steps(C), z = turned(z), layout = :tcb)[1] ≈ turned(y)
    one = run(B = B[:, 1, :, :], C = C[:, 1, :, :])[1]
    @test one[1:2, :, :] ≈ y[1:2, :, :]
    @test run(B = view(B, :, 1, :, :), C = view(C, :, 1, :, :))[1] ≈ one
end

@testset "constant, complex and short matrices" begin
    u, delta = randn(2, 5), rand(2, 5)
    A, B, C = -rand(3, 2), randn(3, 2), randn(3, 2)
    same(matrix) = repeat(reshape(matrix, 3, 2, 1, 1), 1, 1, 5, 1)
    y = selective_scan(u, delta, A, B, C)
    @test y ≈ selective_scan(u, delta, A, same(B), same(C))
    # A real state for the pair of itself and its conjugate counts twice.
    @test selective_scan(u, delta, complex(A), complex(B), complex(C)) ≈ 2 .* y
    _, back = selective_scan_pullback(u, delta, A, B, C)
    is_slope(back(one.(u)).B, moved -> sum(selective_scan(u, delta, A, moved, C)), B)
    @test back(one.(u)).z === nothing
    half = selective_scan(Float16.(u), Float16.(delta), Float32.(A), Float32.(B), Float16.(same(C)))
    @test eltype(half) == Float16 && isapprox(half, y; rtol = 5e-2)
    @test occursin("accepted is Float64", sentence(() -> selective_scan(u, delta, A, Float32.(B), C)))
    @test occursin("2 groups and C 1", sentence(() -> selective_scan(u, delta, A, same(B), same(C)[:, 1:1, :, :])))
    @test occursin("delta has size", sentence(() -> selective_scan(u, delta[:, 1:3], A, B, C)))
end
