// SPDX-License-Identifier: Apache-2.0
use crate::element::Element;
use crate::error::Error;
use crate::options::Options;
use crate::plan::{arguments, extent, setters, typed_plan, Plan};
use crate::pool::Pool;
use crate::{Direction, Layout};
use flashscan_sys as sys;
use std::marker::PhantomData;
use std::ops::BitOr;

/// How `a` comes of the gate `g`. Gradients are with respect to `g`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GateForm {
    /// `a = g`
    Value = sys::FLASHSCAN_GATE_VALUE as isize,
    /// `a = exp(g)`
    Log = sys::FLASHSCAN_GATE_LOG as isize,
    /// `a = 1 / (1 + exp(-g))`
    Logit = sys::FLASHSCAN_GATE_LOGIT as isize,
}

/// Axes along which the gate has extent 1; its gradient is summed over them. Joined by `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broadcast(u32);

impl Broadcast {
    pub const NONE: Self = Self(0);
    pub const BATCH: Self = Self(sys::FLASHSCAN_BROADCAST_BATCH);
    pub const TIME: Self = Self(sys::FLASHSCAN_BROADCAST_TIME);
    pub const CHANNELS: Self = Self(sys::FLASHSCAN_BROADCAST_CHANNELS);
}

impl BitOr for Broadcast {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Elements from one row of a state to the next, and from one of a cell's states to the next; 0 for dense ones.
pub use sys::flashscan_state_strides as StateStrides;
/// Elements from one batch entry, step or channel to the next; all zero for a dense tensor in the layout.
pub use sys::flashscan_strides as Strides;

/// Makes plans for the linear recurrence `h[t] = a[t] h[t-1] + x[t]`, elementwise over batch and channels. `T` is the type
/// of the data, `G` that of the gate: the same, `f32` with 16-bit data or `Complex<f32>`, or `f64` with `Complex<f64>`.
///
/// ```
/// use flashscan::{Broadcast, Direction, GateForm, Linear, LinearBackward, LinearForward};
///
/// # fn main() -> Result<(), flashscan::Error> {
/// let (batch, time, channels) = (2, 3, 1);
/// let plan = Linear::<f32>::new(batch, time, channels)
///     .gate_form(GateForm::Value)
///     .gate_broadcast(Broadcast::TIME | Broadcast::CHANNELS) // a gate for each batch entry: [2, 1, 1]
///     .direction(Direction::Forward)
///     .build()?;
///
/// let (gate, x) = ([0.5, 2.0], [1.0; 6]);
/// let mut h = [0.0; 6];
/// plan.forward(LinearForward { gate: &gate, input: &x, output: &mut h, ..Default::default() })?;
/// assert_eq!(h, [1.0, 1.5, 1.75, 1.0, 3.0, 7.0]);
///
/// let (mut grad_x, mut grad_gate) = ([0.0; 6], [0.0; 2]);
/// plan.backward(LinearBackward {
///     gate: &gate,
///     output: Some(&h),
///     grad_output: &[0.0, 0.0, 1.0, 0.0, 0.0, 1.0],
///     grad_input: Some(&mut grad_x),
///     grad_gate: Some(&mut grad_gate),
///     ..Default::default()
/// })?;
/// assert_eq!(grad_x, [0.25, 0.5, 1.0, 4.0, 2.0, 1.0]);
/// assert_eq!(grad_gate, [0.5 * 1.0 + 1.5, 2.0 * 1.0 + 3.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Linear<T: Element, G: Element = T> {
    desc: sys::flashscan_linear_desc,
    options: Options,
    types: PhantomData<fn(T, G)>,
}

impl<T: Element> Linear<T, T> {
    pub fn new(batch: usize, time: usize, channels: usize) -> Self {
        let desc = sys::flashscan_linear_desc {
            struct_size: std::mem::size_of::<sys::flashscan_linear_desc>() as u32,
            dtype: T::DTYPE,
            gate_dtype: T::DTYPE,
            batch: extent(batch),
            time: extent(time),
            channels: extent(channels),
            ..Default::default()
        };
        Self { desc, options: Options::new(), types: PhantomData }
    }
}

impl<T: Element, G: Element> Linear<T, G> {
    /// A gate of another type than the data.
    pub fn gate_type<Other: Element>(mut self) -> Linear<T, Other> {
        self.desc.gate_dtype = Other::DTYPE;
        Linear { desc: self.desc, options: self.options, types: PhantomData }
    }

    setters! {
        layout(layout: Layout) |desc| desc.layout = layout as i32;
        gate_form(form: GateForm) |desc| desc.gate_form = form as i32;
        gate_broadcast(axes: Broadcast) |desc| desc.gate_broadcast = axes.0;
        direction(direction: Direction) |desc| desc.direction = direction as i32;
        /// Calls take `reset` [B, T]: where it is true the carried state is 0 before the step.
        with_reset() |desc| desc.flags |= sys::FLASHSCAN_LINEAR_FLAG_RESET;
        /// So many sequences one after another in one row (batch 1); calls take `seq_offsets`.
        packed(sequences: usize) |desc| desc.num_sequences = extent(sequences);
        /// Strides of the input, the gate and the output.
        strides(input: Strides, gate: Strides, output: Strides)
            |desc| (desc.input, desc.gate, desc.output) = (input, gate, output);
        /// Strides of their gradients.
        grad_strides(input: Strides, gate: Strides, output: Strides)
            |desc| (desc.grad_input, desc.grad_gate, desc.grad_output) = (input, gate, output);
        /// Where the rows of the states before the first and after the last step lie.
        state_strides(state_in: StateStrides, state_out: StateStrides)
            |desc| (desc.state_in, desc.state_out) = (state_in, state_out);
        /// The same of their gradients.
        grad_state_strides(state_in: StateStrides, state_out: StateStrides)
            |desc| (desc.grad_state_in, desc.grad_state_out) = (state_in, state_out);
        /// Forward takes a [`Pool`] of so many rows; there is no backward.
        state_pool(rows: usize) |desc| desc.state_pool = extent(rows);
    }

    pub fn build(&self) -> Result<LinearPlan<T, G>, Error> {
        let plan = Plan::new(sys::flashscan_plan_linear, &self.desc, &self.options)?;
        Ok(LinearPlan { plan, types: PhantomData })
    }
}

typed_plan! {
    /// A plan made by [`Linear`].
    LinearPlan<T, G = T>: LinearForward, LinearBackward
}

arguments! {
    /// Arguments of [`LinearPlan::forward`]. Data are [B, T, C], or [B, C, T] in that layout; states are [B, C], or
    /// [sequences, C] if packed.
    LinearForward<'a, T: Element, G: Element> {
        input: &'a [T] = sys::FLASHSCAN_ARG_INPUT,
        /// As the input, 1 where broadcast.
        gate: &'a [G] = sys::FLASHSCAN_ARG_GATE,
        /// Written: h.
        output: &'a mut [T] = sys::FLASHSCAN_ARG_OUTPUT,
        /// h before the first step; zeros if left out.
        state_in: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_STATE_IN,
        /// Written: h after the last step.
        state_out: Option<&'a mut [T::State]> = sys::FLASHSCAN_ARG_STATE_OUT,
        /// Read and written, of a plan with `state_pool`.
        pool: Option<Pool<'a, T::State>> = sys::FLASHSCAN_ARG_STATE_INDICES,
        reset: Option<&'a [bool]> = sys::FLASHSCAN_ARG_RESET,
        seq_offsets: Option<&'a [i64]> = sys::FLASHSCAN_ARG_SEQ_OFFSETS,
    }
}

arguments! {
    /// Arguments of [`LinearPlan::backward`]; at least one of the three gradients that are written.
    LinearBackward<'a, T: Element, G: Element> {
        gate: &'a [G] = sys::FLASHSCAN_ARG_GATE,
        /// Of forward; needed for `grad_gate`.
        output: Option<&'a [T]> = sys::FLASHSCAN_ARG_OUTPUT,
        grad_output: &'a [T] = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_OUTPUT,
        /// If it was given to forward.
        state_in: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_STATE_IN,
        grad_state_out: Option<&'a [T::State]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_STATE_OUT,
        reset: Option<&'a [bool]> = sys::FLASHSCAN_ARG_RESET,
        seq_offsets: Option<&'a [i64]> = sys::FLASHSCAN_ARG_SEQ_OFFSETS,
        /// Written.
        grad_input: Option<&'a mut [T]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_INPUT,
        /// Written.
        grad_gate: Option<&'a mut [G]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_GATE,
        /// Written.
        grad_state_in: Option<&'a mut [T::State]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_STATE_IN,
    }
}
