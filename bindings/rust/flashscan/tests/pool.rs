// SPDX-License-Identifier: Apache-2.0
//! Steps whose states are rows of a pool against calls of all steps; padding, and what is refused.

#[path = "support/numbers.rs"]
mod support;

use flashscan::*;
use support::{assert_close, numbers};

const B: usize = 2;
const T: usize = 4;
const C: usize = 3;
const ROWS: usize = 7;
/// The second row of a step is padding.
const INDICES: [i32; B + 1] = [5, -1, 0];

/// Step `t` of an array [B, T, width], with padding.
fn at(t: usize, array: &[f64], width: usize) -> Vec<f64> {
    let row = |b: usize| array[(b * T + t) * width..][..width].to_vec();
    [row(0), vec![f64::NAN; width], row(1)].concat()
}

/// What all steps gave: the output [B, T, width], and the `states` states [states, B, inner] before and after them.
struct All<'a> {
    output: &'a [f64],
    width: usize,
    states: usize,
    before: &'a [f64],
    after: &'a [f64],
}

/// Goes the same steps one by one: `step` gets its number, its output and the pool.
fn assert_steps(all: All, mut step: impl FnMut(usize, &mut [f64], Pool<f64>) -> Result<(), Error>) {
    let inner = all.before.len() / (all.states * B);
    let row = |s: usize, i: usize| (s * ROWS + i) * inner..(s * ROWS + i + 1) * inner;
    let with = |states: &[f64]| {
        let mut pool = vec![7.0; all.states * ROWS * inner];
        for s in 0..all.states {
            for (b, i) in [(0, 5), (1, 0)] {
                pool[row(s, i)].copy_from_slice(&states[(s * B + b) * inner..][..inner]);
            }
        }
        pool
    };
    let mut pool = with(all.before);
    for t in 0..T {
        let mut output = vec![f64::NAN; (B + 1) * all.width];
        step(t, &mut output, Pool { states: &mut pool, indices: &INDICES }).unwrap();
        let mut expected = at(t, all.output, all.width);
        expected[all.width..2 * all.width].fill(0.0);
        assert_close(&output, &expected, 1e-13);
    }
    assert_close(&pool, &with(all.after), 1e-13);
}

#[test]
fn linear_steps() {
    let (gate, input, before) = (numbers(1, B * T * C), numbers(2, B * T * C), numbers(3, B * C));
    let (mut output, mut after) = (vec![0.0; B * T * C], vec![0.0; B * C]);
    let args = LinearForward {
        gate: &gate,
        input: &input,
        output: &mut output,
        state_in: Some(&before),
        state_out: Some(&mut after),
        ..Default::default()
    };
    Linear::<f64>::new(B, T, C).build().unwrap().forward(args).unwrap();
    let one = Linear::<f64>::new(B + 1, 1, C).state_pool(ROWS).build().unwrap();
    let all = All { output: &output, width: C, states: 1, before: &before, after: &after };
    assert_steps(all, |t, output, pool| {
        let (gate, input) = (at(t, &gate, C), at(t, &input, C));
        one.forward(LinearForward { gate: &gate, input: &input, output, pool: Some(pool), ..Default::default() })
    });
}

#[test]
fn gated_steps() {
    let (gate, input, before) = (numbers(1, B * T * C), numbers(2, B * T * C), numbers(3, B * C));
    let (output_gate, mut output, mut after) = (numbers(4, B * T * C), vec![0.0; B * T * C], vec![0.0; B * C]);
    let layer = |batch, time| Gated::<f64>::layer(GatedLayer::Qrnn, batch, time, C);
    let plan = layer(B, T).build().unwrap();
    let mut reserve = plan.reserve();
    let args = GatedForward {
        gate: &gate,
        input: &input,
        output_gate: Some(&output_gate),
        output: &mut output,
        state_in: Some(&before),
        state_out: Some(&mut after),
        reserve: Some(&mut reserve),
        ..Default::default()
    };
    plan.forward(args).unwrap();
    let one = layer(B + 1, 1).state_pool(ROWS).build().unwrap();
    let all = All { output: &output, width: C, states: 1, before: &before, after: &after };
    assert_steps(all, |t, output, pool| {
        let [gate, input, output_gate] = [&gate, &input, &output_gate].map(|array| at(t, array, C));
        one.forward(GatedForward {
            gate: &gate,
            input: &input,
            output_gate: Some(&output_gate),
            output,
            pool: Some(pool),
            ..Default::default()
        })
    });
}

#[test]
fn selective_steps() {
    const N: usize = 2;
    let (input, delta, before) = (numbers(1, B * T * C), numbers(2, B * T * C), numbers(3, B * C * N));
    let (a, b, c) = (numbers(4, C * N), numbers(5, B * T * N), numbers(6, C * N));
    let (mut output, mut after) = (vec![0.0; B * T * C], vec![0.0; B * C * N]);
    let scan = |batch, time| Selective::<f64>::new(batch, time, C, N).softplus();
    let args = SelectiveForward {
        input: &input,
        delta: &delta,
        a: &a,
        b: &b,
        c: &c,
        output: &mut output,
        state_in: Some(&before),
        state_out: Some(&mut after),
        ..Default::default()
    };
    scan(B, T).b_per_step().build().unwrap().forward(args).unwrap();
    let one = scan(B + 1, 1).b_per_step().state_pool(ROWS).build().unwrap();
    let all = All { output: &output, width: C, states: 1, before: &before, after: &after };
    assert_steps(all, |t, output, pool| {
        let (input, delta, b) = (at(t, &input, C), at(t, &delta, C), at(t, &b, N));
        one.forward(SelectiveForward {
            input: &input,
            delta: &delta,
            a: &a,
            b: &b,
            c: &c,
            output,
            pool: Some(pool),
            ..Default::default()
        })
    });
}

#[test]
fn network_steps() {
    const H: usize = 2;
    const D: usize = H * C;
    for cell in Cell::ALL.iter().copied() {
        let (gates, states) = (cell.gates(), cell.states());
        let (input, weight) = (numbers(1, B * T * gates * D), numbers(2, gates * D * C));
        let (bias, mut before) = (numbers(3, cell.biases() * D), numbers(4, states * B * D));
        if let Some(n) = before.chunks_mut(B * D).nth(2) {
            n.iter_mut().for_each(|n| *n += 2.0); // of sLSTM, at least 1 after a step
        }
        let (mut output, mut after) = (vec![0.0; B * T * D], vec![0.0; states * B * D]);
        let args = RnnForward {
            input: &input,
            weight: &weight,
            bias: Some(&bias),
            output: &mut output,
            state_in: Some(&before),
            state_out: Some(&mut after),
            ..Default::default()
        };
        Rnn::<f64>::new(cell, B, T, H, C).build().unwrap().forward(args).unwrap();
        let one = Rnn::<f64>::new(cell, B + 1, 1, H, C).state_pool(ROWS).build().unwrap();
        let all = All { output: &output, width: D, states, before: &before, after: &after };
        assert_steps(all, |t, output, pool| {
            let (input, bias) = (at(t, &input, gates * D), Some(&bias[..]));
            one.forward(RnnForward {
                input: &input,
                weight: &weight,
                bias,
                output,
                pool: Some(pool),
                ..Default::default()
            })
        });
    }
}

#[test]
fn wrong_pools_are_refused() {
    let plan = Linear::<f64>::new(2, 1, 1).state_pool(3).build().unwrap();
    let mut output = [0.0; 2];
    let mut sentence = |states: &mut [f64], indices: &[i32]| {
        let before = states.to_vec();
        let pool = Some(Pool { states: &mut *states, indices });
        let args = LinearForward { gate: &[0.5; 2], input: &[1.0; 2], output: &mut output, pool, ..Default::default() };
        let error = plan.forward(args).unwrap_err();
        assert_eq!(states, before);
        error.sentence().to_string()
    };
    let error = sentence(&mut [1.0; 3], &[0, 3]);
    assert!(error.contains("STATE_INDICES[1] is 3"), "{error}");
    let error = sentence(&mut [1.0; 3], &[2, 2]);
    assert!(error.contains("are both 2"), "{error}");
    let error = sentence(&mut [1.0; 2], &[0, 1]);
    assert!(error.contains("STATE_IN"), "{error}");
    let error = sentence(&mut [1.0; 3], &[0]);
    assert!(error.contains("STATE_INDICES"), "{error}");

    let (two, mut grad) = ([0.5; 2], [0.0; 2]);
    let args = LinearForward { gate: &two, input: &two, output: &mut output, ..Default::default() };
    let error = plan.forward(args).unwrap_err();
    assert!(matches!(&error, Error::MissingArgument(sentence) if sentence.contains("STATE_INDICES")), "{error}");
    let args = LinearBackward { gate: &two, grad_output: &two, grad_input: Some(&mut grad), ..Default::default() };
    let error = plan.backward(args).unwrap_err();
    assert!(error.sentence().contains("state_pool is 3"), "{error}");
    let pool = Some(Pool { states: &mut [0.0; 2], indices: &[0, 1] });
    let args = LinearForward { gate: &two, input: &two, output: &mut output, pool, ..Default::default() };
    let error = Linear::<f64>::new(2, 1, 1).build().unwrap().forward(args).unwrap_err();
    assert!(matches!(&error, Error::UnknownArgument(_)), "{error}");
}
