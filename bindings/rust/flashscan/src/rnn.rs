// SPDX-License-Identifier: Apache-2.0
use crate::element::Element;
use crate::error::Error;
use crate::options::Options;
use crate::plan::{arguments, extent, setters, typed_plan, Plan};
use crate::pool::Pool;
use crate::reserve::Reserve;
use crate::Direction;
use flashscan_sys as sys;
use std::marker::PhantomData;

macro_rules! cells {
    ($($(#[$doc:meta])* $cell:ident = $constant:ident, $name:literal, $gates:literal, $states:literal, $biases:literal;)*) => {
        /// Cells; their equations are in the C header.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Cell {
            $($(#[$doc])* $cell = sys::$constant as isize,)*
        }

        impl Cell {
            /// All cells, in the order of their numbers.
            pub const ALL: &'static [Cell] = &[$(Cell::$cell),*];

            /// The last part of its constant in the C header, in lower case.
            pub fn name(self) -> &'static str {
                match self {
                    $(Cell::$cell => $name,)*
                }
            }

            /// G.
            pub fn gates(self) -> usize {
                match self {
                    $(Cell::$cell => $gates,)*
                }
            }

            /// S.
            pub fn states(self) -> usize {
                match self {
                    $(Cell::$cell => $states,)*
                }
            }

            /// Rows of the bias: the gates, one more for [`Cell::Gru`].
            pub fn biases(self) -> usize {
                match self {
                    $(Cell::$cell => $biases,)*
                }
            }
        }
    };
}

// Name, gates, states, biases.
cells! {
    /// Gates i f z o, states h c.
    Lstm = FLASHSCAN_CELL_LSTM, "lstm", 4, 2, 4;
    /// Gates r z n, state h, biases r z n rn; the reset after the product, as PyTorch has it.
    Gru = FLASHSCAN_CELL_GRU, "gru", 3, 1, 4;
    /// One gate, state h, tanh.
    Elman = FLASHSCAN_CELL_ELMAN, "elman", 1, 1, 1;
    /// Gates i f z o, states h c n m.
    Slstm = FLASHSCAN_CELL_SLSTM, "slstm", 4, 4, 4;
    /// Gates r z n, state h, biases r z n; the reset before the product.
    GruResetBefore = FLASHSCAN_CELL_GRU_RESET_BEFORE, "gru_reset_before", 3, 1, 3;
    /// One gate, state h, max(x, 0).
    ElmanRelu = FLASHSCAN_CELL_ELMAN_RELU, "elman_relu", 1, 1, 1;
    /// Gates f n, state h; the first gate resets before the product.
    Mgu = FLASHSCAN_CELL_MGU, "mgu", 2, 1, 2;
}

/// Order of the axes: input [B, T, G, H, D] and output [B, T, H, D], or time before batch in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RnnLayout {
    Btghd = sys::FLASHSCAN_LAYOUT_BTGHD as isize,
    Tbghd = sys::FLASHSCAN_LAYOUT_TBGHD as isize,
}

/// Makes plans for recurrent networks whose input product is the caller's: the input holds W x. Each of H heads has its
/// own D x D matrix for each gate. `T` is the type of the data, `W` that of the weights and biases: the same, or `f32` with
/// 16-bit data.
///
/// ```
/// use flashscan::{Cell, Rnn, RnnBackward, RnnForward};
///
/// # fn main() -> Result<(), flashscan::Error> {
/// let (batch, time, heads, dim) = (1, 2, 1, 1);
/// let plan = Rnn::<f64>::new(Cell::Elman, batch, time, heads, dim).training().build()?;
/// let mut reserve = plan.reserve();
///
/// let (input, weight) = ([0.5, 0.0], [2.0]);
/// let mut h = [0.0; 2];
/// plan.forward(RnnForward {
///     input: &input,
///     weight: &weight,
///     output: &mut h,
///     reserve: Some(&mut reserve),
///     ..Default::default()
/// })?;
/// assert!((h[1] - (2.0 * 0.5f64.tanh()).tanh()).abs() < 1e-15);
///
/// let mut grad_weight = [0.0];
/// plan.backward(RnnBackward {
///     weight: &weight,
///     output: &h,
///     reserve: Some(&reserve),
///     grad_output: &[0.0, 1.0],
///     grad_weight: Some(&mut grad_weight),
///     ..Default::default()
/// })?;
/// assert!((grad_weight[0] - (1.0 - h[1] * h[1]) * h[0]).abs() < 1e-15);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Rnn<T: Element, W: Element = T> {
    desc: sys::flashscan_rnn_desc,
    options: Options,
    types: PhantomData<fn(T, W)>,
}

impl<T: Element> Rnn<T, T> {
    pub fn new(cell: Cell, batch: usize, time: usize, heads: usize, head_dim: usize) -> Self {
        let desc = sys::flashscan_rnn_desc {
            struct_size: std::mem::size_of::<sys::flashscan_rnn_desc>() as u32,
            dtype: T::DTYPE,
            weight_dtype: T::DTYPE,
            cell: cell as i32,
            batch: extent(batch),
            time: extent(time),
            heads: extent(heads),
            head_dim: extent(head_dim),
            ..Default::default()
        };
        Self { desc, options: Options::new(), types: PhantomData }
    }
}

impl<T: Element, W: Element> Rnn<T, W> {
    /// Weights and biases of another type than the data.
    pub fn weight_type<Other: Element>(mut self) -> Rnn<T, Other> {
        self.desc.weight_dtype = Other::DTYPE;
        Rnn { desc: self.desc, options: self.options, types: PhantomData }
    }

    setters! {
        layout(layout: RnnLayout) |desc| desc.layout = layout as i32;
        direction(direction: Direction) |desc| desc.direction = direction as i32;
        /// Backward will be called: forward fills a [`Reserve`].
        training() |desc| desc.flags |= sys::FLASHSCAN_RNN_FLAG_TRAINING;
        /// Factors of products of f32 data may be rounded to tf32 where a GPU is then faster; the CPU does not heed it.
        allow_tf32() |desc| desc.flags |= sys::FLASHSCAN_RNN_FLAG_ALLOW_TF32;
        /// The output holds all states, [S, ...], h first.
        all_states() |desc| desc.flags |= sys::FLASHSCAN_RNN_FLAG_ALL_STATES;
        /// Calls take `reset` [B, T]: where it is true all states are 0 before the step.
        with_reset() |desc| desc.flags |= sys::FLASHSCAN_RNN_FLAG_RESET;
        /// So many sequences one after another in one row (batch 1); calls take `seq_offsets`.
        packed(sequences: usize) |desc| desc.num_sequences = extent(sequences);
        /// Limits the gradient that reaches h through the recurrent weights, at every step; 0: no limit.
        recurrent_clip(limit: f64) |desc| desc.recurrent_clip = limit;
        /// Where the rows of the states before the first and after the last step lie.
        state_strides(state_in: crate::StateStrides, state_out: crate::StateStrides)
            |desc| (desc.state_in, desc.state_out) = (state_in, state_out);
        /// The same of their gradients.
        grad_state_strides(state_in: crate::StateStrides, state_out: crate::StateStrides)
            |desc| (desc.grad_state_in, desc.grad_state_out) = (state_in, state_out);
        /// Forward takes a [`Pool`] of so many rows; there is no backward.
        state_pool(rows: usize) |desc| desc.state_pool = extent(rows);
    }

    pub fn build(&self) -> Result<RnnPlan<T, W>, Error> {
        let plan = Plan::new(sys::flashscan_plan_rnn, &self.desc, &self.options)?;
        Ok(RnnPlan { plan, types: PhantomData })
    }
}

typed_plan! {
    /// A plan made by [`Rnn`].
    RnnPlan<T, W = T>: RnnForward, RnnBackward
}

impl<T: Element, W: Element> RnnPlan<T, W> {
    /// What forward of this plan leaves for backward; empty unless the plan is for training.
    pub fn reserve(&self) -> Reserve {
        Reserve::of(self)
    }
}

arguments! {
    /// Arguments of [`RnnPlan::forward`]. States are [S, B, H, D], or [S, sequences, H, D] if packed.
    RnnForward<'a, T: Element, W: Element> {
        /// W x, [B, T, G, H, D] or [T, B, G, H, D].
        input: &'a [T] = sys::FLASHSCAN_ARG_INPUT,
        /// R, [G, H, D, D] with the row of the output before the column of the input.
        weight: &'a [W] = sys::FLASHSCAN_ARG_WEIGHT,
        /// [G, H, D], [4, H, D] for [`Cell::Gru`]; zeros if left out.
        bias: Option<&'a [W]> = sys::FLASHSCAN_ARG_BIAS,
        /// Written: [B, T, H, D] or [T, B, H, D], [S, ...] with all states.
        output: &'a mut [T] = sys::FLASHSCAN_ARG_OUTPUT,
        /// Zeros if left out.
        state_in: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_STATE_IN,
        /// Written.
        state_out: Option<&'a mut [T::State]> = sys::FLASHSCAN_ARG_STATE_OUT,
        /// Read and written, of a plan with `state_pool`.
        pool: Option<Pool<'a, T::State>> = sys::FLASHSCAN_ARG_STATE_INDICES,
        /// Written, of a plan for training.
        reserve: Option<&'a mut Reserve> = sys::FLASHSCAN_ARG_RESERVE,
        reset: Option<&'a [bool]> = sys::FLASHSCAN_ARG_RESET,
        seq_offsets: Option<&'a [i64]> = sys::FLASHSCAN_ARG_SEQ_OFFSETS,
    }
}

arguments! {
    /// Arguments of [`RnnPlan::backward`]; at least one of the four gradients that are written.
    RnnBackward<'a, T: Element, W: Element> {
        weight: &'a [W] = sys::FLASHSCAN_ARG_WEIGHT,
        /// Of forward.
        output: &'a [T] = sys::FLASHSCAN_ARG_OUTPUT,
        /// Of forward.
        reserve: Option<&'a Reserve> = sys::FLASHSCAN_ARG_RESERVE,
        grad_output: &'a [T] = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_OUTPUT,
        /// If it was given to forward.
        state_in: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_STATE_IN,
        grad_state_out: Option<&'a [T::State]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_STATE_OUT,
        reset: Option<&'a [bool]> = sys::FLASHSCAN_ARG_RESET,
        seq_offsets: Option<&'a [i64]> = sys::FLASHSCAN_ARG_SEQ_OFFSETS,
        /// Written.
        grad_input: Option<&'a mut [T]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_INPUT,
        /// Written.
        grad_weight: Option<&'a mut [W]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_WEIGHT,
        /// Written.
        grad_bias: Option<&'a mut [W]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_BIAS,
        /// Written.
        grad_state_in: Option<&'a mut [T::State]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_STATE_IN,
    }
}
