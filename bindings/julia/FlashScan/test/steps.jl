# SPDX-License-Identifier: Apache-2.0
# Steps with their states in place and in a pool, against calls of all steps.

const BATCH, STEPS, POOL = 3, 4, 7
const ROWS = [6, 0, 2]  # the second batch entry is padding

# Goes the steps that gave `outputs` (..., T, B) and took the states `first` to `last`, with batch along `axis`, one by one.
# `step!` gets a state, the number of the step, and keywords.
function same_steps(step!, outputs, first, last, axis)
    here(state, rows) = selectdim(state, axis, rows)
    alone, pool = copy(first), fill(7.0, ntuple(i -> i == axis ? POOL : size(first, i), ndims(first)))
    here(pool, [6, 2]) .= here(first, [1, 3])
    expected = copy(pool)
    here(expected, [6, 2]) .= here(last, [1, 3])
    time, batch = ndims(outputs) - 1, ndims(outputs)
    for t in 1:STEPS
        want = selectdim(outputs, time, t)
        @test step!(alone, t) ≈ want
        got = step!(pool, t; indices = ROWS)
        @test selectdim(got, batch - 1, [1, 3]) ≈ selectdim(want, batch - 1, [1, 3])
        @test all(iszero, selectdim(got, batch - 1, 2))
    end
    @test alone ≈ last && pool ≈ expected
end

# Step t of an array (..., T, B).
at(x, t) = copy(selectdim(x, ndims(x) - 1, t))

@testset "linear steps" begin
    gate, x, state, reset = rand(2, STEPS, BATCH), rand(2, STEPS, BATCH), rand(2, BATCH), rand(Bool, STEPS, BATCH)
    h, final = linear_scan(gate, x; state = state, reset = reset, form = :logit, final_state = true)
    step!(states, t; more...) =
        linear_step!(states, at(gate, t), at(x, t); form = :logit, reset = reset[t, :], more...)
    same_steps(step!, h, state, final, 2)
    # Gates for all batch entries, narrow data, views.
    state = rand(Float32, 2, BATCH)
    expected = [0.5f0, 0.25f0] .* state .+ 1
    h = linear_step!(state, Float16[0.5, 0.25], view(ones(Float16, 3, BATCH), 1:2:3, :))
    @test h isa Matrix{Float16} && h ≈ expected && state ≈ expected
end

@testset "gated steps" begin
    gate, x, o = randn(2, STEPS, BATCH), randn(2, STEPS, BATCH), randn(2, STEPS, BATCH)
    state, param = randn(2, BATCH), rand(2)
    h, final = gated_scan(gate, x; layer = :qrnn, output_gate = o, state = state, final_state = true)
    step!(states, t; more...) =
        gated_step!(states, at(gate, t), at(x, t); layer = :qrnn, output_gate = at(o, t), more...)
    same_steps(step!, h, state, final, 2)
    # Without a past of its own, the first step of RG-LRU has its scale only where it is reset.
    parts = (layer = :rglru, param = param, bias = param)
    h, final = gated_scan(gate, x; input_gate = o, final_state = true, parts...)
    rglru!(states, t; more...) =
        gated_step!(states, at(gate, t), at(x, t); input_gate = at(o, t), reset = fill(t == 1, BATCH), parts..., more...)
    same_steps(rglru!, h, zeros(2, BATCH), final, 2)
end

@testset "selective steps" begin
    u, delta, z = randn(4, STEPS, BATCH), randn(4, STEPS, BATCH), randn(4, STEPS, BATCH)
    A, B, C = -rand(3, 4), randn(3, 2, STEPS, BATCH), randn(3, 2, STEPS, BATCH)
    vectors, state = (D = randn(4), bias = randn(4), softplus = true), randn(3, 4, BATCH)
    y, final = selective_scan(u, delta, A, B, C; z = z, state = state, final_state = true, vectors...)
    step!(states, t; more...) =
        selective_step!(states, at(u, t), at(delta, t), A, at(B, t), at(C, t); z = at(z, t), vectors..., more...)
    same_steps(step!, y, state, final, 3)
end

@testset "steps of $cell" for cell in FlashScan.CELLS
    about = Cell(cell)
    input, weight = randn(3, 2, about.gates, STEPS, BATCH), randn(3, 3, 2, about.gates)
    bias, state, reset = randn(3, 2, about.biases), 1 .+ rand(3, 2, BATCH, about.states), rand(Bool, STEPS, BATCH)
    h, final = rnn(cell, input, weight, bias; state = state, reset = reset)
    step!(states, t; more...) =
        rnn_step!(states, cell, at(input, t), weight, bias; reset = reset[t, :], more...)
    same_steps(step!, h, state, final, 3)
end

@testset "errors of steps" begin
    x, pool = ones(1, 2), fill(7.0, 1, 4)
    failure(; state = pool, gate = x, more...) = sentence(() -> linear_step!(state, gate, x; more...))
    @test occursin("indices[2] is 5; accepted are rows of the pool, 1 to 4", failure(indices = [1, 5]))
    @test occursin("indices[1] is -1", failure(indices = [-1, 2]))
    @test occursin("rows that differ", failure(indices = [3, 3]))
    @test occursin("indices has size (3,)", failure(indices = [1, 2, 3]))
    @test occursin("a vector of integers", failure(indices = [1.0, 2.0]))
    @test occursin("no rows", failure(state = zeros(1, 0), indices = [0, 0]))
    @test occursin("state has size (1, 4); expected is (1, 2)", failure())
    @test occursin("state holds Float32", failure(state = ones(Float32, 1, 2)))
    @test occursin("accepted is an Array", failure(state = view(pool, :, 1:2)))
    @test occursin("gate has 3 axes", failure(gate = ones(1, 1, 2), indices = [1, 2]))
    @test occursin("reset has size (3,)", failure(reset = falses(3), indices = [1, 2]))
    @test occursin("input has 5 axes", sentence(() -> rnn_step!(pool, :gru, rand(2, 1, 3, 1, 2), rand(2, 2, 1, 3))))
    @test pool == fill(7.0, 1, 4)
end
