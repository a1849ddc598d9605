// SPDX-License-Identifier: Apache-2.0
//! Learns a filter back from nothing but its input and its output, as examples/quickstart.c does with a recording.
//!
//! `y[t] = 0.97 y[t-1] + x[t]` is the linear recurrence with one batch, one channel and a gate that is the same at every
//! step. Fails unless the coefficient is found again within 0.001.

use flashscan::{Broadcast, Error, Linear, LinearBackward, LinearForward, LinearPlan};

/// A tone over noise, the noise from a linear congruential generator.
fn make_signal(count: usize) -> Vec<f32> {
    let mut noise = 1u32;
    (0..count)
        .map(|t| {
            noise = noise.wrapping_mul(1664525).wrapping_add(1013904223);
            ((0.03 * t as f64).sin() + f64::from(noise) / 4294967296.0 - 0.5) as f32
        })
        .collect()
}

/// y[t] = gate y[t-1] + x[t]
fn filter(plan: &LinearPlan<f32>, gate: f64, x: &[f32]) -> Result<Vec<f32>, Error> {
    let mut y = vec![0.0; x.len()];
    plan.forward(LinearForward { gate: &[gate as f32], input: x, output: &mut y, ..Default::default() })?;
    Ok(y)
}

/// d loss / d gate, summed over time by the library, from d loss / d y.
fn slope(plan: &LinearPlan<f32>, gate: f64, y: &[f32], grad_y: &[f32]) -> Result<f64, Error> {
    let mut sum = [0.0];
    plan.backward(LinearBackward {
        gate: &[gate as f32],
        output: Some(y),
        grad_output: grad_y,
        grad_gate: Some(&mut sum),
        ..Default::default()
    })?;
    Ok(f64::from(sum[0]))
}

fn energy(signal: &[f32]) -> f64 {
    signal.iter().map(|value| f64::from(*value).powi(2)).sum()
}

fn difference(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// Gradient descent on 1/2 sum (y - wanted)^2. The step is divided by the curvature, the sum of (dy/da)^2, and halved
/// while it does not lower the loss. dy/da is a recurrence of the same filter: d[t] = a d[t-1] + y[t-1].
fn learn(plan: &LinearPlan<f32>, x: &[f32], wanted: &[f32], mut a: f64) -> Result<f64, Error> {
    let mut y = filter(plan, a, x)?;
    let mut residual = difference(&y, wanted);
    let mut loss = energy(&residual) / 2.0;
    for _ in 0..50 {
        let delayed = [&[0.0], &y[..y.len() - 1]].concat();
        let curvature = energy(&filter(plan, a, &delayed)?);
        let mut step = slope(plan, a, &y, &residual)? / curvature;
        let mut next = loss;
        while step.abs() > 1e-7 {
            y = filter(plan, a - step, x)?;
            residual = difference(&y, wanted);
            next = energy(&residual) / 2.0;
            if next < loss {
                break;
            }
            step /= 2.0;
        }
        if next >= loss {
            break;
        }
        a -= step;
        loss = next;
        println!("loss {loss:11.4e} at {a:.6}");
    }
    Ok(a)
}

fn main() -> Result<(), Error> {
    let x = make_signal(20000);
    let plan = Linear::<f32>::new(1, x.len(), 1).gate_broadcast(Broadcast::TIME).build()?;
    let wanted = filter(&plan, 0.97, &x)?;
    let learned = learn(&plan, &x, &wanted, 0.5)?;
    println!("learned {learned:.6} from 0.5; the signal was filtered with 0.97");
    assert!((learned - 0.97).abs() <= 1e-3);
    Ok(())
}
