// SPDX-License-Identifier: Apache-2.0
//! Gated layers against loops over their steps, and their gradients against differences.

#[path = "support/numbers.rs"]
mod support;

use flashscan::*;
use support::{assert_close, assert_gradient, dot, numbers, sigmoid, softplus};

const B: usize = 2;
const T: usize = 6;
const C: usize = 5;
const ALL: usize = B * T * C;

/// `h[t] = a h[t-1] + v` with a and v of each element as `step` gives them, from `state` [B, C]; h and its last step.
fn steps(state: &[f64], reverse: bool, step: impl Fn(usize) -> (f64, f64)) -> (Vec<f64>, Vec<f64>) {
    let (mut all, mut state) = (vec![0.0; ALL], state.to_vec());
    for b in 0..B {
        for t in 0..T {
            let t = if reverse { T - 1 - t } else { t };
            for c in 0..C {
                let i = (b * T + t) * C + c;
                let (a, v) = step(i);
                state[b * C + c] = a * state[b * C + c] + v;
                all[i] = state[b * C + c];
            }
        }
    }
    (all, state)
}

fn positive(x: f64) -> f64 {
    if x >= 0.0 {
        x + 0.5
    } else {
        sigmoid(x)
    }
}

#[test]
fn min_gru_is_its_steps() {
    let (gate, input, mut h) = (numbers(1, ALL), numbers(2, ALL), vec![0.0; ALL]);
    let plan = Gated::<f64>::layer(GatedLayer::MinGru, B, T, C).build().unwrap();
    plan.forward(GatedForward { gate: &gate, input: &input, output: &mut h, ..Default::default() }).unwrap();
    let (expected, _) = steps(&[0.0; B * C], false, |i| {
        let z = sigmoid(gate[i]);
        (1.0 - z, z * positive(input[i]))
    });
    assert_close(&h, &expected, 1e-13);
}

#[test]
fn min_lstm_takes_a_second_gate() {
    let (gate, second, input, mut h) = (numbers(1, ALL), numbers(2, ALL), numbers(3, ALL), vec![0.0; ALL]);
    let plan = Gated::<f64>::layer(GatedLayer::MinLstm, B, T, C).build().unwrap();
    let without = plan.forward(GatedForward { gate: &gate, input: &input, output: &mut h, ..Default::default() });
    assert!(
        matches!(&without, Err(Error::MissingArgument(sentence)) if sentence.contains("SECOND_GATE")),
        "{without:?}"
    );
    let args =
        GatedForward { gate: &gate, second_gate: Some(&second), input: &input, output: &mut h, ..Default::default() };
    plan.forward(args).unwrap();
    let (expected, _) = steps(&[0.0; B * C], false, |i| {
        let (f, z) = (sigmoid(gate[i]), sigmoid(second[i]));
        (f / (f + z), z / (f + z) * positive(input[i]))
    });
    assert_close(&h, &expected, 1e-13);
}

#[test]
fn rg_lru_is_its_steps() {
    let (gate, input_gate, input) = (numbers(1, ALL), numbers(2, ALL), numbers(3, ALL));
    let (param, bias, mut h) = (numbers(4, C), numbers(5, C), vec![0.0; ALL]);
    let reset: Vec<bool> = (0..B * T).map(|i| i == 3 || i == 8).collect();
    let plan = Gated::<f64>::layer(GatedLayer::RgLru, B, T, C).decay_rate(2.0).with_reset().build().unwrap();
    let args = GatedForward {
        gate: &gate,
        input_gate: Some(&input_gate),
        param: Some(&param),
        bias: Some(&bias),
        input: &input,
        output: &mut h,
        reset: Some(&reset),
        ..Default::default()
    };
    plan.forward(args).unwrap();
    let (expected, _) = steps(&[0.0; B * C], false, |i| {
        let a = (-2.0 * softplus(param[i % C]) * sigmoid(gate[i] + bias[i % C])).exp();
        let first = i / C % T == 0 || reset[i / C];
        let v = sigmoid(input_gate[i]) * input[i];
        if first {
            (0.0, v)
        } else {
            (a, (1.0 - a * a).sqrt() * v)
        }
    });
    assert_close(&h, &expected, 1e-13);
}

/// A combination of parts that has no name, backwards in time.
struct General {
    plan: GatedPlan<f64>,
    output_gate: Vec<f64>,
    state_in: Vec<f64>,
}

impl General {
    fn new() -> Self {
        let plan = Gated::<f64>::new(Decay::LowerBound, B, T, C)
            .scale(Scale::OneMinus)
            .activation(Activation::Silu)
            .with_input_gate()
            .epilogue(Epilogue::TanhSigmoid)
            .direction(Direction::Reverse)
            .build()
            .unwrap();
        General { plan, output_gate: numbers(11, ALL), state_in: numbers(12, B * C) }
    }

    /// The output and the last state of input, gate, gate of the input and parameter.
    fn run(
        &self,
        [input, gate, input_gate, param]: [&[f64]; 4],
        reserve: Option<&mut Reserve>,
    ) -> (Vec<f64>, Vec<f64>) {
        let (mut output, mut last) = (vec![0.0; ALL], vec![0.0; B * C]);
        let args = GatedForward {
            gate,
            input,
            input_gate: Some(input_gate),
            output_gate: Some(&self.output_gate),
            param: Some(param),
            state_in: Some(&self.state_in),
            state_out: Some(&mut last),
            output: &mut output,
            reserve,
            ..Default::default()
        };
        self.plan.forward(args).unwrap();
        (output, last)
    }
}

#[test]
fn parts_are_combined() {
    let general = General::new();
    let (input, gate, input_gate) = (numbers(1, ALL), numbers(2, ALL), numbers(3, ALL));
    let param: Vec<f64> = numbers(4, C).iter().map(|p| 0.5 + 0.4 * p).collect();
    let (output, last) = general.run([&input, &gate, &input_gate, &param], None);
    let (h, expected_last) = steps(&general.state_in, true, |i| {
        let p = param[i % C];
        let a = p + (1.0 - p) * sigmoid(gate[i]);
        (a, (1.0 - a) * input[i] * sigmoid(input[i]) * sigmoid(input_gate[i]))
    });
    let expected: Vec<f64> = h.iter().zip(&general.output_gate).map(|(h, o)| h.tanh() * sigmoid(*o)).collect();
    assert_close(&output, &expected, 1e-13);
    assert_close(&last, &expected_last, 1e-13);
}

#[test]
fn gradients_are_slopes() {
    let general = General::new();
    let (input, gate, input_gate) = (numbers(1, ALL), numbers(2, ALL), numbers(3, ALL));
    let param: Vec<f64> = numbers(4, C).iter().map(|p| 0.5 + 0.4 * p).collect();
    let (weights, last_weights) = (numbers(5, ALL), numbers(6, B * C));
    let mut reserve = general.plan.reserve();
    general.run([&input, &gate, &input_gate, &param], Some(&mut reserve));
    let (mut grad_input, mut grad_gate) = (vec![0.0; ALL], vec![0.0; ALL]);
    let (mut grad_input_gate, mut grad_param) = (vec![0.0; ALL], vec![0.0; C]);
    let args = GatedBackward {
        gate: &gate,
        input: Some(&input),
        input_gate: Some(&input_gate),
        output_gate: Some(&general.output_gate),
        param: Some(&param),
        reserve: Some(&reserve),
        state_in: Some(&general.state_in),
        grad_output: &weights,
        grad_state_out: Some(&last_weights),
        grad_input: Some(&mut grad_input),
        grad_gate: Some(&mut grad_gate),
        grad_input_gate: Some(&mut grad_input_gate),
        grad_param: Some(&mut grad_param),
        ..Default::default()
    };
    general.plan.backward(args).unwrap();
    let loss = |tensors: [&[f64]; 4]| {
        let (output, last) = general.run(tensors, None);
        dot(&output, &weights) + dot(&last, &last_weights)
    };
    assert_gradient(&grad_input, &input, |moved| loss([moved, &gate, &input_gate, &param]));
    assert_gradient(&grad_gate, &gate, |moved| loss([&input, moved, &input_gate, &param]));
    assert_gradient(&grad_input_gate, &input_gate, |moved| loss([&input, &gate, moved, &param]));
    assert_gradient(&grad_param, &param, |moved| loss([&input, &gate, &input_gate, moved]));
}

#[test]
fn every_argument_of_backward_fits_in_a_call() {
    // RATIO and SOFTPLUS exclude each other, so that one argument more than any plan takes is refused by its name.
    let plan = Gated::<f64>::new(Decay::Softplus, 1, 1, 1)
        .with_input_gate()
        .epilogue(Epilogue::Sigmoid)
        .with_reset()
        .packed(1)
        .build()
        .unwrap();
    let (one, mut reserve) = ([0.5], plan.reserve());
    let mut grads = [[0.0]; 8];
    let (reset, offsets, mut output) = ([false], [0, 1], [0.0]);
    let args = GatedForward {
        input: &one,
        gate: &one,
        input_gate: Some(&one),
        output_gate: Some(&one),
        param: Some(&one),
        bias: Some(&one),
        output: &mut output,
        state_in: Some(&one),
        reserve: Some(&mut reserve),
        reset: Some(&reset),
        seq_offsets: Some(&offsets),
        ..Default::default()
    };
    plan.forward(args).unwrap();
    let [input, gate, second_gate, input_gate, output_gate, param, bias, state_in] = &mut grads;
    let args = GatedBackward {
        input: Some(&one),
        gate: &one,
        second_gate: Some(&one),
        input_gate: Some(&one),
        output_gate: Some(&one),
        param: Some(&one),
        bias: Some(&one),
        output: Some(&output),
        reserve: Some(&reserve),
        grad_output: &one,
        state_in: Some(&one),
        grad_state_out: Some(&one),
        reset: Some(&reset),
        seq_offsets: Some(&offsets),
        grad_input: Some(input),
        grad_gate: Some(gate),
        grad_second_gate: Some(second_gate),
        grad_input_gate: Some(input_gate),
        grad_output_gate: Some(output_gate),
        grad_param: Some(param),
        grad_bias: Some(bias),
        grad_state_in: Some(state_in),
    };
    assert!(matches!(plan.backward(args), Err(Error::UnknownArgument(_))));
}

#[test]
fn sixteen_bits_take_gates_and_parameters_of_f32() {
    let plan = Gated::<Bf16>::new(Decay::Sigmoid, 1, 2, 1).gate_type::<f32>().param_type::<f32>().build().unwrap();
    let (input, mut h, mut last) = ([Bf16::from(1.0); 2], [Bf16::default(); 2], [0.0f32]);
    let args = GatedForward {
        gate: &[1.0, 1.0],
        bias: Some(&[-1.0]),
        input: &input,
        output: &mut h,
        state_out: Some(&mut last),
        ..Default::default()
    };
    plan.forward(args).unwrap();
    assert_eq!((f32::from(h[1]), last), (1.5, [1.5]));
    let refused = Gated::<f32>::new(Decay::Sigmoid, 1, 1, 1).gate_type::<f64>().build().unwrap_err();
    assert!(refused.sentence().contains("gate_dtype"), "{refused}");
    let refused = Gated::<f32>::layer(GatedLayer::MinGru, 1, 1, 1).scale(Scale::Sqrt).build().unwrap_err();
    assert!(refused.sentence().contains("scale"), "{refused}");
}

#[test]
fn strides_read_parts_of_a_projection() {
    // [T, 2 C]: the gate is the first half of each step, the input the second.
    let projection = [0.5, 0.25, 1.0, 2.0, 0.5, 0.25, 1.0, 2.0f32];
    let half = Strides { batch: 0, time: 4, channels: 1 };
    let strides = GatedStrides { input: half, gate: half, ..Default::default() };
    let plan = Gated::<f32>::new(Decay::Value, 1, 2, 2).strides(strides).build().unwrap();
    let mut h = [0.0; 4];
    let args = GatedForward { gate: &projection[..6], input: &projection[2..], output: &mut h, ..Default::default() };
    plan.forward(args).unwrap();
    assert_eq!(h, [1.0, 2.0, 1.5, 2.5]);
}
