// SPDX-License-Identifier: Apache-2.0
use crate::element::{Bf16, Complex, Element, F16};
use crate::error::Error;
use crate::options::Options;
use crate::plan::{arguments, extent, setters, typed_plan, Plan};
use crate::pool::Pool;
use crate::{Direction, Layout, StateStrides, Strides};
use flashscan_sys as sys;
use std::marker::PhantomData;

/// A type that the matrices and states of a selective scan with data of type `T` can have.
pub trait Matrix<T: Element>: Element {
    /// The type of matrices that change from step to step: that of the data, or the complex one.
    type Step: Element;
}

macro_rules! matrices {
    ($($data:ty, $matrix:ty => $step:ty;)+) => {
        $(impl Matrix<$data> for $matrix {
            type Step = $step;
        })+
    };
}

matrices! {
    f32, f32 => f32;
    Bf16, f32 => Bf16;
    F16, f32 => F16;
    f64, f64 => f64;
    f32, Complex<f32> => Complex<f32>;
    f64, Complex<f64> => Complex<f64>;
}

/// Strides of the tensors of a selective scan, or of their gradients; zeros for those that are dense or constant. Those of
/// matrices per step have `channels` from one of the numbers of a step to the next.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SelectiveStrides {
    pub input: Strides,
    pub delta: Strides,
    pub output_gate: Strides,
    pub b: Strides,
    pub c: Strides,
    pub output: Strides,
}

/// Makes plans for selective scans, the state-space layer of Mamba with N states a channel:
/// `h[t][n] = exp(d[t] A[n]) h[t-1][n] + d[t] B[t][n] input[t]` and `y[t]` the sum of `C[t][n] h[t][n]` over n, plus
/// `D input[t]`, with `d[t] = delta[t] + bias`. The output is y, or `y z s(z)` with `z` of `output_gate` and
/// `s(z) = 1 / (1 + exp(-z))`. `T` is the type of the data, `M` that of A, of constant B and C and of the states: `f32`,
/// `f64` with `f64`, or complex for states in conjugate pairs. `B` and `C` are the types of these matrices.
///
/// ```
/// use flashscan::{Selective, SelectiveBackward, SelectiveForward};
///
/// # fn main() -> Result<(), flashscan::Error> {
/// let (batch, time, channels, states) = (1, 3, 1, 1);
/// let plan = Selective::<f64>::new(batch, time, channels, states).c_per_step().build()?;
///
/// // exp(delta A) = 1/2 at every step.
/// let (u, delta, a) = ([1.0; 3], [1.0; 3], [-std::f64::consts::LN_2]);
/// let (b, c) = ([1.0], [1.0, 1.0, 2.0]);
/// let mut y = [0.0; 3];
/// plan.forward(SelectiveForward {
///     input: &u,
///     delta: &delta,
///     a: &a,
///     b: &b,
///     c: &c,
///     output: &mut y,
///     ..Default::default()
/// })?;
/// assert!(y.iter().zip([1.0, 1.5, 3.5]).all(|(got, expected)| (got - expected).abs() < 1e-14));
///
/// let mut grad_u = [0.0; 3];
/// plan.backward(SelectiveBackward {
///     input: &u,
///     delta: &delta,
///     a: &a,
///     b: &b,
///     c: &c,
///     grad_output: &[0.0, 0.0, 1.0],
///     grad_input: Some(&mut grad_u),
///     ..Default::default()
/// })?;
/// assert!(grad_u.iter().zip([0.5, 1.0, 2.0]).all(|(got, expected)| (got - expected).abs() < 1e-14));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Selective<T: Element, M: Element = <T as Element>::State, B: Element = M, C: Element = M> {
    desc: sys::flashscan_selective_desc,
    options: Options,
    types: PhantomData<fn(T, M, B, C)>,
}

impl<T: Element> Selective<T>
where
    T::State: Matrix<T>,
{
    /// `states` is N, of each channel.
    pub fn new(batch: usize, time: usize, channels: usize, states: usize) -> Self {
        let desc = sys::flashscan_selective_desc {
            struct_size: std::mem::size_of::<sys::flashscan_selective_desc>() as u32,
            dtype: T::DTYPE,
            matrix_dtype: T::State::DTYPE,
            batch: extent(batch),
            time: extent(time),
            channels: extent(channels),
            states: extent(states),
            ..Default::default()
        };
        Self { desc, options: Options::new(), types: PhantomData }
    }
}

impl<T: Element, M: Matrix<T>> Selective<T, M> {
    /// Matrices and states of another type.
    pub fn matrix_type<Other: Matrix<T>>(mut self) -> Selective<T, Other> {
        self.desc.matrix_dtype = Other::DTYPE;
        Selective { desc: self.desc, options: self.options, types: PhantomData }
    }
}

impl<T: Element, M: Matrix<T>, B: Element, C: Element> Selective<T, M, B, C> {
    /// B changes from step to step.
    pub fn b_per_step(mut self) -> Selective<T, M, M::Step, C> {
        self.desc.flags |= sys::FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP;
        Selective { desc: self.desc, options: self.options, types: PhantomData }
    }

    /// C changes from step to step.
    pub fn c_per_step(mut self) -> Selective<T, M, B, M::Step> {
        self.desc.flags |= sys::FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP;
        Selective { desc: self.desc, options: self.options, types: PhantomData }
    }

    setters! {
        /// `d = log(1 + exp(delta + bias))`
        softplus() |desc| desc.flags |= sys::FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS;
        /// So many groups of neighbouring channels have a B and a C per step of their own.
        groups(groups: usize) |desc| desc.groups = extent(groups);
        layout(layout: Layout) |desc| desc.layout = layout as i32;
        direction(direction: Direction) |desc| desc.direction = direction as i32;
        /// Calls take `reset` [B, T]: where it is true the carried states are 0 before the step.
        with_reset() |desc| desc.flags |= sys::FLASHSCAN_SELECTIVE_FLAG_RESET;
        /// So many sequences one after another in one row (batch 1); calls take `seq_offsets`.
        packed(sequences: usize) |desc| desc.num_sequences = extent(sequences);
        strides(strides: SelectiveStrides) |desc| {
            (desc.input, desc.delta, desc.output_gate) = (strides.input, strides.delta, strides.output_gate);
            (desc.b, desc.c, desc.output) = (strides.b, strides.c, strides.output);
        };
        /// Strides of the gradients.
        grad_strides(strides: SelectiveStrides) |desc| {
            (desc.grad_input, desc.grad_delta) = (strides.input, strides.delta);
            (desc.grad_output_gate, desc.grad_output) = (strides.output_gate, strides.output);
            (desc.grad_b, desc.grad_c) = (strides.b, strides.c);
        };
        /// Where the rows of the states before the first and after the last step lie.
        state_strides(state_in: StateStrides, state_out: StateStrides)
            |desc| (desc.state_in, desc.state_out) = (state_in, state_out);
        /// The same of their gradients.
        grad_state_strides(state_in: StateStrides, state_out: StateStrides)
            |desc| (desc.grad_state_in, desc.grad_state_out) = (state_in, state_out);
        /// Forward takes a [`Pool`] of so many rows; there is no backward.
        state_pool(rows: usize) |desc| desc.state_pool = extent(rows);
    }

    pub fn build(&self) -> Result<SelectivePlan<T, M, B, C>, Error> {
        let plan = Plan::new(sys::flashscan_plan_selective, &self.desc, &self.options)?;
        Ok(SelectivePlan { plan, types: PhantomData })
    }
}

typed_plan! {
    /// A plan made by [`Selective`].
    SelectivePlan<T, M = <T as Element>::State, B = M, C = M>: SelectiveForward, SelectiveBackward
}

arguments! {
    /// Arguments of [`SelectivePlan::forward`]. Data are [B, T, C], or [B, C, T] in that layout; states are [B, C, N], or
    /// [sequences, C, N] if packed.
    SelectiveForward<'a, T: Element, M: Element, B: Element, C: Element> {
        input: &'a [T] = sys::FLASHSCAN_ARG_INPUT,
        delta: &'a [T] = sys::FLASHSCAN_ARG_DELTA,
        /// [C, N]
        a: &'a [M] = sys::FLASHSCAN_ARG_A,
        /// [C, N]; per step [B, T, G N], or [B, G N, T] in that layout, with the N of a group together.
        b: &'a [B] = sys::FLASHSCAN_ARG_B,
        /// As `b`.
        c: &'a [C] = sys::FLASHSCAN_ARG_C,
        /// `[C]`; zeros if left out.
        d: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_D,
        /// `[C]`, added to `delta`; zeros if left out.
        bias: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_BIAS,
        output_gate: Option<&'a [T]> = sys::FLASHSCAN_ARG_OUTPUT_GATE,
        /// Written.
        output: &'a mut [T] = sys::FLASHSCAN_ARG_OUTPUT,
        /// h before the first step; zeros if left out.
        state_in: Option<&'a [M]> = sys::FLASHSCAN_ARG_STATE_IN,
        /// Written: h after the last step.
        state_out: Option<&'a mut [M]> = sys::FLASHSCAN_ARG_STATE_OUT,
        /// Read and written, of a plan with `state_pool`.
        pool: Option<Pool<'a, M>> = sys::FLASHSCAN_ARG_STATE_INDICES,
        reset: Option<&'a [bool]> = sys::FLASHSCAN_ARG_RESET,
        seq_offsets: Option<&'a [i64]> = sys::FLASHSCAN_ARG_SEQ_OFFSETS,
    }
}

arguments! {
    /// Arguments of [`SelectivePlan::backward`], of the shapes of forward; what was given to forward is given again, and at
    /// least one of the gradients is written.
    SelectiveBackward<'a, T: Element, M: Element, B: Element, C: Element> {
        input: &'a [T] = sys::FLASHSCAN_ARG_INPUT,
        delta: &'a [T] = sys::FLASHSCAN_ARG_DELTA,
        a: &'a [M] = sys::FLASHSCAN_ARG_A,
        b: &'a [B] = sys::FLASHSCAN_ARG_B,
        c: &'a [C] = sys::FLASHSCAN_ARG_C,
        d: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_D,
        bias: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_BIAS,
        output_gate: Option<&'a [T]> = sys::FLASHSCAN_ARG_OUTPUT_GATE,
        grad_output: &'a [T] = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_OUTPUT,
        state_in: Option<&'a [M]> = sys::FLASHSCAN_ARG_STATE_IN,
        grad_state_out: Option<&'a [M]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_STATE_OUT,
        reset: Option<&'a [bool]> = sys::FLASHSCAN_ARG_RESET,
        seq_offsets: Option<&'a [i64]> = sys::FLASHSCAN_ARG_SEQ_OFFSETS,
        /// Written, as all below.
        grad_input: Option<&'a mut [T]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_INPUT,
        grad_delta: Option<&'a mut [T]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_DELTA,
        grad_a: Option<&'a mut [M]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_A,
        grad_b: Option<&'a mut [B]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_B,
        grad_c: Option<&'a mut [C]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_C,
        grad_d: Option<&'a mut [T::State]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_D,
        grad_bias: Option<&'a mut [T::State]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_BIAS,
        grad_output_gate: Option<&'a mut [T]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_OUTPUT_GATE,
        grad_state_in: Option<&'a mut [M]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_STATE_IN,
    }
}
