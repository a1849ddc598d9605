# SPDX-License-Identifier: Apache-2.0
# Learns a filter back from nothing but its input and its output, as examples/quickstart.c does with a recording.
#
#     y[t] = 0.97 y[t-1] + x[t]
#
# is the linear recurrence with one batch, one channel and a gate that is the same at every step. The value of the file is
# the coefficient that it finds.

module Filter

using FlashScan, Printf

# A tone over noise, the noise from a linear congruential generator.
function make_signal(count)
    noise = UInt32(1)
    map(0:count-1) do t
        noise = noise * UInt32(1664525) + UInt32(1013904223)
        Float32(sin(0.03t) + noise / 4294967296 - 0.5)
    end
end

energy(signal) = sum(abs2, Float64.(signal))
gate(a) = [Float32(a)]'  # 1 x 1: the same at every step
filtered(a, x) = linear_scan(gate(a), x)

# Gradient descent on 1/2 sum (y - wanted)^2. The step is divided by the curvature, the sum of (dy/da)^2, and halved while
# it does not lower the loss. dy/da is a recurrence of the same filter: d[t] = a d[t-1] + y[t-1].
function learn(x, wanted, a)
    loss = Inf
    for _ in 1:50
        (y, _), back = linear_scan_pullback(gate(a), x)
        loss = energy(y - wanted) / 2
        @printf("loss %11.4e at %.6f\n", loss, a)
        slope = back(y - wanted)[1][1]
        step = slope / energy(filtered(a, [zeros(Float32, 1, 1) y[:, 1:end-1]]))
        while abs(step) > 1e-7 && energy(filtered(a - step, x) - wanted) / 2 >= loss
            step /= 2
        end
        abs(step) > 1e-7 || break
        a -= step
    end
    a
end

function main()
    x = reshape(make_signal(20000), 1, :)
    learned = learn(x, filtered(0.97, x), 0.5)
    @printf("learned %.6f from 0.5; the signal was filtered with 0.97\n", learned)
    learned
end

end

Filter.main()
