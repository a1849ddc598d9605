// SPDX-License-Identifier: Apache-2.0
//! Selective scans against loops over their steps, and their gradients against differences.

#[path = "support/numbers.rs"]
mod support;

use flashscan::*;
use support::{assert_close, assert_gradient, dot, numbers, sigmoid, softplus};

const B: usize = 2;
const T: usize = 6;
const C: usize = 4;
const N: usize = 3;
const G: usize = 2;
const ALL: usize = B * T * C;

/// A layer with everything: B and C per step in groups, softplus, D, bias, a gate and initial states.
#[derive(Clone)]
struct Layer {
    u: Vec<f64>,
    delta: Vec<f64>,
    z: Vec<f64>,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    d: Vec<f64>,
    bias: Vec<f64>,
    state: Vec<f64>,
}

impl Layer {
    fn new() -> Self {
        Layer {
            u: numbers(1, ALL),
            delta: numbers(2, ALL),
            z: numbers(3, ALL),
            a: numbers(4, C * N).iter().map(|a| a - 1.2).collect(),
            b: numbers(5, B * T * G * N),
            c: numbers(6, B * T * G * N),
            d: numbers(7, C),
            bias: numbers(8, C),
            state: numbers(9, B * C * N),
        }
    }

    fn plan() -> SelectivePlan<f64> {
        Selective::<f64>::new(B, T, C, N).b_per_step().c_per_step().groups(G).softplus().build().unwrap()
    }

    /// The output and the final states.
    fn run(&self, plan: &SelectivePlan<f64>) -> (Vec<f64>, Vec<f64>) {
        let (mut output, mut last) = (vec![0.0; ALL], vec![0.0; B * C * N]);
        let args = SelectiveForward {
            input: &self.u,
            delta: &self.delta,
            a: &self.a,
            b: &self.b,
            c: &self.c,
            d: Some(&self.d),
            bias: Some(&self.bias),
            output_gate: Some(&self.z),
            output: &mut output,
            state_in: Some(&self.state),
            state_out: Some(&mut last),
            ..Default::default()
        };
        plan.forward(args).unwrap();
        (output, last)
    }

    /// The same, step by step.
    fn steps(&self) -> (Vec<f64>, Vec<f64>) {
        let (mut output, mut h) = (vec![0.0; ALL], self.state.clone());
        for b in 0..B {
            for t in 0..T {
                for c in 0..C {
                    let i = (b * T + t) * C + c;
                    let delta = softplus(self.delta[i] + self.bias[c]);
                    let mut y = self.d[c] * self.u[i];
                    for n in 0..N {
                        let step = ((b * T + t) * G + c / (C / G)) * N + n;
                        let h = &mut h[(b * C + c) * N + n];
                        *h = (delta * self.a[c * N + n]).exp() * *h + delta * self.b[step] * self.u[i];
                        y += self.c[step] * *h;
                    }
                    output[i] = y * self.z[i] * sigmoid(self.z[i]);
                }
            }
        }
        (output, h)
    }
}

#[test]
fn scans_are_their_steps() {
    let layer = Layer::new();
    let (output, last) = layer.run(&Layer::plan());
    let (expected, expected_last) = layer.steps();
    assert_close(&output, &expected, 1e-13);
    assert_close(&last, &expected_last, 1e-13);
}

#[test]
fn gradients_are_slopes() {
    let (layer, plan) = (Layer::new(), Layer::plan());
    let (weights, last_weights) = (numbers(21, ALL), numbers(22, B * C * N));
    let mut grad = layer.clone();
    let args = SelectiveBackward {
        input: &layer.u,
        delta: &layer.delta,
        a: &layer.a,
        b: &layer.b,
        c: &layer.c,
        d: Some(&layer.d),
        bias: Some(&layer.bias),
        output_gate: Some(&layer.z),
        grad_output: &weights,
        state_in: Some(&layer.state),
        grad_state_out: Some(&last_weights),
        grad_input: Some(&mut grad.u),
        grad_delta: Some(&mut grad.delta),
        grad_a: Some(&mut grad.a),
        grad_b: Some(&mut grad.b),
        grad_c: Some(&mut grad.c),
        grad_d: Some(&mut grad.d),
        grad_bias: Some(&mut grad.bias),
        grad_output_gate: Some(&mut grad.z),
        grad_state_in: Some(&mut grad.state),
        ..Default::default()
    };
    plan.backward(args).unwrap();
    let check = |field: fn(&mut Layer) -> &mut Vec<f64>| {
        let point = field(&mut layer.clone()).clone();
        assert_gradient(field(&mut grad.clone()), &point, |moved| {
            let mut layer = layer.clone();
            *field(&mut layer) = moved.to_vec();
            let (output, last) = layer.run(&plan);
            dot(&output, &weights) + dot(&last, &last_weights)
        });
    };
    check(|layer| &mut layer.u);
    check(|layer| &mut layer.delta);
    check(|layer| &mut layer.z);
    check(|layer| &mut layer.a);
    check(|layer| &mut layer.b);
    check(|layer| &mut layer.c);
    check(|layer| &mut layer.d);
    check(|layer| &mut layer.bias);
    check(|layer| &mut layer.state);
}

#[test]
fn sixteen_bits_have_matrices_of_f32_and_steps_of_their_own() {
    let plan = Selective::<Bf16>::new(1, 2, 1, 1).b_per_step().build().unwrap();
    let (one, mut y, mut last) = ([Bf16::from(1.0); 2], [Bf16::default(); 2], [0.0f32]);
    let args = SelectiveForward {
        input: &one,
        delta: &one,
        a: &[-std::f32::consts::LN_2],
        b: &one,
        c: &[2.0f32],
        output: &mut y,
        state_out: Some(&mut last),
        ..Default::default()
    };
    plan.forward(args).unwrap();
    assert_eq!(f32::from(y[1]), 3.0);
    assert!((last[0] - 1.5).abs() < 1e-6);
}

#[test]
fn complex_matrices_stand_for_pairs_of_states() {
    let (u, delta) = ([1.0, 0.5, -0.25], [0.5, 0.25, 1.0]);
    let (a, b, c) = ([Complex { re: -0.5, im: 2.0 }], [Complex { re: 1.0, im: 0.0 }], [Complex { re: 0.0, im: 1.0 }]);
    let plan = Selective::<f64>::new(1, 3, 1, 1).matrix_type::<Complex<f64>>().build().unwrap();
    let (mut y, mut last) = ([0.0; 3], [Complex::default()]);
    let args = SelectiveForward {
        input: &u,
        delta: &delta,
        a: &a,
        b: &b,
        c: &c,
        output: &mut y,
        state_out: Some(&mut last),
        ..Default::default()
    };
    plan.forward(args).unwrap();
    let (mut re, mut im) = (0.0, 0.0);
    let mut expected = [0.0; 3];
    for t in 0..3 {
        let (modulus, angle) = ((delta[t] * a[0].re).exp(), delta[t] * a[0].im);
        let (cos, sin) = (modulus * angle.cos(), modulus * angle.sin());
        (re, im) = (cos * re - sin * im + delta[t] * u[t], cos * im + sin * re);
        expected[t] = -2.0 * im;
    }
    assert_close(&y, &expected, 1e-13);
    assert_close(&[last[0].re, last[0].im], &[re, im], 1e-13);
}

#[test]
fn refusals_name_what_is_wrong() {
    let refused = Selective::<f32>::new(1, 1, 4, 2).b_per_step().groups(3).build().unwrap_err();
    assert!(matches!(&refused, Error::InvalidArgument(sentence) if sentence.contains("groups")), "{refused}");
    let plan = Selective::<f32>::new(1, 2, 1, 2).build().unwrap();
    let (two, mut y) = ([0.5; 2], [7.0; 2]);
    let args = SelectiveForward {
        input: &two,
        delta: &two,
        a: &two,
        b: &two[1..],
        c: &two,
        output: &mut y,
        ..Default::default()
    };
    let short = plan.forward(args);
    assert!(matches!(&short, Err(Error::BufferTooSmall(sentence)) if sentence.contains('B')), "{short:?}");
    assert_eq!(y, [7.0; 2]);
}
