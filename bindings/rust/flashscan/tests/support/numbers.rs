// SPDX-License-Identifier: Apache-2.0
//! Numbers for tests of layers, and comparisons of them.
#![allow(dead_code)] // each test takes what it needs

/// Numbers between -1 and 1 that repeat from run to run.
pub fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count + 4).map(|_| next()).skip(4).collect()
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub fn softplus(x: f64) -> f64 {
    x.exp().ln_1p()
}

pub fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(l, r)| l * r).sum()
}

pub fn assert_close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= tolerance * expected.abs().max(1.0), "at {i}: {got}, expected {expected}");
    }
}

/// Compares a gradient with central differences of `loss` at `point`.
pub fn assert_gradient(grad: &[f64], point: &[f64], loss: impl Fn(&[f64]) -> f64) {
    const STEP: f64 = 1e-5;
    let at = |i: usize, step: f64| {
        let mut moved = point.to_vec();
        moved[i] += step;
        loss(&moved)
    };
    let differences: Vec<f64> = (0..point.len()).map(|i| (at(i, STEP) - at(i, -STEP)) / (2.0 * STEP)).collect();
    assert!(differences.iter().any(|slope| slope.abs() > 1e-3));
    assert_close(grad, &differences, 1e-7);
}
