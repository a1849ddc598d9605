// SPDX-License-Identifier: Apache-2.0
use crate::element::Element;
use crate::error::Error;
use crate::options::Options;
use crate::plan::{arguments, extent, Pass, Plan};
use crate::{Direction, Layout};
use flashscan_sys as sys;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;

/// An associative operator. Operands keep their order, earlier on the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Add,
    Mul,
    /// Real types; NaN if one is NaN.
    Min,
    Max,
    /// `log(exp(l) + exp(r))`, real types.
    LogAddExp,
    /// The product of `dim` x `dim` matrices, row-major.
    MatMul {
        dim: usize,
    },
    /// `y[t] = W[t] y[t-1] + x[t]` with elements of `dim` numbers, the `dim` x `dim` matrices W as the gate.
    Affine {
        dim: usize,
    },
}

impl Operator {
    fn kind_and_dim(self) -> (i32, usize) {
        match self {
            Operator::Add => (sys::FLASHSCAN_OPERATOR_ADD, 0),
            Operator::Mul => (sys::FLASHSCAN_OPERATOR_MUL, 0),
            Operator::Min => (sys::FLASHSCAN_OPERATOR_MIN, 0),
            Operator::Max => (sys::FLASHSCAN_OPERATOR_MAX, 0),
            Operator::LogAddExp => (sys::FLASHSCAN_OPERATOR_LOGADDEXP, 0),
            Operator::MatMul { dim } => (sys::FLASHSCAN_OPERATOR_MATMUL, dim),
            Operator::Affine { dim } => (sys::FLASHSCAN_OPERATOR_AFFINE, dim),
        }
    }
}

/// What the output holds, with `y[t] = state_in ∘ x[0] ∘ ... ∘ x[t]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `y[t]`
    Inclusive = sys::FLASHSCAN_SCAN_INCLUSIVE as isize,
    /// `y[t-1]`, first the initial state or the identity
    Exclusive = sys::FLASHSCAN_SCAN_EXCLUSIVE as isize,
    /// The last `y` alone
    Reduction = sys::FLASHSCAN_REDUCTION as isize,
}

/// What scans of named operators and of functions share.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) desc: sys::flashscan_operator_desc,
    pub(crate) options: Options,
}

impl Shape {
    pub(crate) fn new(dtype: i32, kind: i32, dim: usize, batch: usize, time: usize, channels: usize) -> Self {
        let desc = sys::flashscan_operator_desc {
            struct_size: std::mem::size_of::<sys::flashscan_operator_desc>() as u32,
            dtype,
            kind,
            layout: 0,
            mode: 0,
            direction: 0,
            flags: 0,
            offsets_dtype: 0,
            batch: extent(batch),
            time: extent(time),
            channels: extent(channels),
            dim: extent(dim),
            num_sequences: 0,
            custom: ptr::null(),
        };
        Self { desc, options: Options::new() }
    }
}

macro_rules! shape_setters {
    () => {
        pub fn mode(mut self, mode: Mode) -> Self {
            self.shape.desc.mode = mode as i32;
            self
        }

        pub fn layout(mut self, layout: Layout) -> Self {
            self.shape.desc.layout = layout as i32;
            self
        }

        /// Reverse: the same on the sequence turned round, and turned back.
        pub fn direction(mut self, direction: Direction) -> Self {
            self.shape.desc.direction = direction as i32;
            self
        }

        /// So many sequences one after another in one row (batch 1); calls take `seq_offsets`.
        pub fn packed(mut self, sequences: usize) -> Self {
            self.shape.desc.num_sequences = extent(sequences);
            self
        }

        pub fn options(mut self, options: Options) -> Self {
            self.shape.options = options;
            self
        }
    };
}

pub(crate) use shape_setters;

/// Makes plans for scans and reductions with a named operator.
///
/// ```
/// use flashscan::{Operator, Scan, ScanForward};
///
/// # fn main() -> Result<(), flashscan::Error> {
/// let plan = Scan::<f64>::new(Operator::Max, 1, 4, 1).build()?;
/// let mut largest = [0.0; 4];
/// plan.forward(ScanForward { input: &[1.0, 3.0, 2.0, 5.0], output: &mut largest, ..Default::default() })?;
/// assert_eq!(largest, [1.0, 3.0, 3.0, 5.0]);
///
/// // Fibonacci numbers: the powers of a matrix.
/// let plan = Scan::<f64>::new(Operator::MatMul { dim: 2 }, 1, 10, 1).build()?;
/// let mut powers = [0.0; 40];
/// plan.forward(ScanForward { input: &[1.0, 1.0, 1.0, 0.0].repeat(10), output: &mut powers, ..Default::default() })?;
/// assert_eq!(powers[36..], [89.0, 55.0, 55.0, 34.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Scan<T: Element> {
    shape: Shape,
    types: PhantomData<fn(T)>,
}

impl<T: Element> Scan<T> {
    /// `channels` chains side by side.
    pub fn new(operator: Operator, batch: usize, time: usize, channels: usize) -> Self {
        let (kind, dim) = operator.kind_and_dim();
        Self { shape: Shape::new(T::DTYPE, kind, dim, batch, time, channels), types: PhantomData }
    }

    shape_setters!();

    pub fn build(&self) -> Result<ScanPlan<T>, Error> {
        let plan = Plan::new(sys::flashscan_plan_operator, &self.shape.desc, &self.shape.options)?;
        Ok(ScanPlan { plan, types: PhantomData })
    }
}

/// A plan made by [`Scan`].
#[derive(Debug)]
pub struct ScanPlan<T: Element> {
    plan: Plan,
    types: PhantomData<fn(T)>,
}

impl<T: Element> Deref for ScanPlan<T> {
    type Target = Plan;
    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl<T: Element> ScanPlan<T> {
    pub fn forward(&self, args: ScanForward<'_, T>) -> Result<(), Error> {
        self.plan.run(Pass::Forward, args.into_args())
    }

    pub fn backward(&self, args: ScanBackward<'_, T>) -> Result<(), Error> {
        self.plan.run(Pass::Backward, args.into_args())
    }
}

arguments! {
    /// Arguments of [`ScanPlan::forward`]. Data are [B, T, C, element], or [B, C, T, element] in that layout; an element is
    /// one number, [d, d] for matrices, [d] for affine maps. States are [B, C, element], [sequences, C, element] if packed.
    ScanForward<'a, T: Element> {
        input: &'a [T] = sys::FLASHSCAN_ARG_INPUT,
        /// Of affine maps: [B, T, C, d, d].
        gate: Option<&'a [T]> = sys::FLASHSCAN_ARG_GATE,
        /// Written: as the input, or as a state for a reduction.
        output: &'a mut [T] = sys::FLASHSCAN_ARG_OUTPUT,
        /// The left operand of the first element.
        state_in: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_STATE_IN,
        /// Written: the last y.
        state_out: Option<&'a mut [T::State]> = sys::FLASHSCAN_ARG_STATE_OUT,
        seq_offsets: Option<&'a [i64]> = sys::FLASHSCAN_ARG_SEQ_OFFSETS,
    }
}

arguments! {
    /// Arguments of [`ScanPlan::backward`]; at least one of the three gradients that are written.
    ScanBackward<'a, T: Element> {
        /// For all but [`Operator::Add`]; for affine maps only with `grad_gate` of a reduction.
        input: Option<&'a [T]> = sys::FLASHSCAN_ARG_INPUT,
        /// Of affine maps.
        gate: Option<&'a [T]> = sys::FLASHSCAN_ARG_GATE,
        /// Of scans of matrices for `grad_input`, of affine maps for `grad_gate`.
        output: Option<&'a [T]> = sys::FLASHSCAN_ARG_OUTPUT,
        grad_output: &'a [T] = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_OUTPUT,
        /// If it was given to forward.
        state_in: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_STATE_IN,
        grad_state_out: Option<&'a [T::State]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_STATE_OUT,
        seq_offsets: Option<&'a [i64]> = sys::FLASHSCAN_ARG_SEQ_OFFSETS,
        /// Written.
        grad_input: Option<&'a mut [T]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_INPUT,
        /// Written.
        grad_gate: Option<&'a mut [T]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_GATE,
        /// Written.
        grad_state_in: Option<&'a mut [T::State]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_STATE_IN,
    }
}
