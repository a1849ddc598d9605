// SPDX-License-Identifier: Apache-2.0
use crate::element::Element;
use crate::error::Error;
use crate::options::Options;
use crate::plan::{arguments, extent, typed_plan, Plan};
use flashscan_sys as sys;
use std::marker::PhantomData;
use std::ptr;

/// An associative operator. Operands keep their order, earlier on the left. Sums, products, extrema and bits are there for
/// integers too, which wrap and have no backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Works on the bits of integers, as the two below do.
    And,
    Or,
    Xor,
}

impl Operator {
    #[cfg(test)]
    const ALL: &'static [Operator] = &[
        Operator::Add,
        Operator::Mul,
        Operator::Min,
        Operator::Max,
        Operator::LogAddExp,
        Operator::MatMul { dim: 2 },
        Operator::Affine { dim: 2 },
        Operator::And,
        Operator::Or,
        Operator::Xor,
    ];

    fn kind_and_dim(self) -> (i32, usize) {
        match self {
            Operator::Add => (sys::FLASHSCAN_OPERATOR_ADD, 0),
            Operator::Mul => (sys::FLASHSCAN_OPERATOR_MUL, 0),
            Operator::Min => (sys::FLASHSCAN_OPERATOR_MIN, 0),
            Operator::Max => (sys::FLASHSCAN_OPERATOR_MAX, 0),
            Operator::LogAddExp => (sys::FLASHSCAN_OPERATOR_LOGADDEXP, 0),
            Operator::MatMul { dim } => (sys::FLASHSCAN_OPERATOR_MATMUL, dim),
            Operator::Affine { dim } => (sys::FLASHSCAN_OPERATOR_AFFINE, dim),
            Operator::And => (sys::FLASHSCAN_OPERATOR_AND, 0),
            Operator::Or => (sys::FLASHSCAN_OPERATOR_OR, 0),
            Operator::Xor => (sys::FLASHSCAN_OPERATOR_XOR, 0),
        }
    }
}

/// What the output holds, with `y[t] = state_in ∘ x[0] ∘ ... ∘ x[t]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// `y[t]`
    Inclusive = sys::FLASHSCAN_MODE_INCLUSIVE as isize,
    /// `y[t-1]`, first the initial state or the identity
    Exclusive = sys::FLASHSCAN_MODE_EXCLUSIVE as isize,
    /// The last `y` alone
    Reduction = sys::FLASHSCAN_MODE_REDUCTION as isize,
}

/// What scans of named operators and of functions share.
pub(crate) fn descriptor(
    dtype: i32,
    kind: i32,
    dim: usize,
    [batch, time, channels]: [usize; 3],
) -> sys::flashscan_operator_desc {
    sys::flashscan_operator_desc {
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
        state_in: Default::default(),
        state_out: Default::default(),
        grad_state_in: Default::default(),
        grad_state_out: Default::default(),
    }
}

macro_rules! scan_setters {
    () => {
        crate::plan::setters! {
            mode(mode: crate::Mode) |desc| desc.mode = mode as i32;
            layout(layout: crate::Layout) |desc| desc.layout = layout as i32;
            /// Where the rows of the states before the first and after the last step lie.
            state_strides(state_in: crate::StateStrides, state_out: crate::StateStrides)
                |desc| (desc.state_in, desc.state_out) = (state_in, state_out);
            /// The same of their gradients.
            grad_state_strides(state_in: crate::StateStrides, state_out: crate::StateStrides)
                |desc| (desc.grad_state_in, desc.grad_state_out) = (state_in, state_out);
            /// Reverse: the same on the sequence turned round, and turned back.
            direction(direction: crate::Direction) |desc| desc.direction = direction as i32;
            /// So many sequences one after another in one row (batch 1); calls take `seq_offsets`.
            packed(sequences: usize) |desc| desc.num_sequences = crate::plan::extent(sequences);
        }
    };
}
pub(crate) use scan_setters;

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
/// let mut steps = [0; 4];
/// let call = ScanForward { input: &[1.0, 3.0, 2.0, 5.0], output: &mut largest, index: Some(&mut steps), ..Default::default() };
/// plan.forward(call)?;
/// assert_eq!(steps, [0, 1, 1, 3]);
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
    desc: sys::flashscan_operator_desc,
    options: Options,
    types: PhantomData<fn(T)>,
}

impl<T: Element> Scan<T> {
    /// `channels` chains side by side.
    pub fn new(operator: Operator, batch: usize, time: usize, channels: usize) -> Self {
        let (kind, dim) = operator.kind_and_dim();
        let desc = descriptor(T::DTYPE, kind, dim, [batch, time, channels]);
        Self { desc, options: Options::new(), types: PhantomData }
    }

    scan_setters!();

    pub fn build(&self) -> Result<ScanPlan<T>, Error> {
        let plan = Plan::new(sys::flashscan_plan_operator, &self.desc, &self.options)?;
        Ok(ScanPlan { plan, types: PhantomData })
    }
}

typed_plan! {
    /// A plan made by [`Scan`].
    ScanPlan<T>: ScanForward, ScanBackward
}

arguments! {
    /// Arguments of [`ScanPlan::forward`]. Data are [B, T, C, element], or [B, C, T, element] in that layout; an element is
    /// one number, `[d, d]` for matrices, `[d]` for affine maps. States are [B, C, element], [sequences, C, element] if packed.
    ScanForward<'a, T: Element> {
        input: &'a [T] = sys::FLASHSCAN_ARG_INPUT,
        /// Of affine maps: [B, T, C, d, d].
        gate: Option<&'a [T]> = sys::FLASHSCAN_ARG_GATE,
        /// Written: as the input, or as a state for a reduction.
        output: &'a mut [T] = sys::FLASHSCAN_ARG_OUTPUT,
        /// Written, of [`Operator::Min`] and [`Operator::Max`]: as the output, the step that each extremum was reached at,
        /// counted along T; -1 before any. As `output` it is left as it is behind the last packed sequence.
        index: Option<&'a mut [i64]> = sys::FLASHSCAN_ARG_INDEX,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_have_no_gradients() -> Result<(), Error> {
        let plan = Scan::<u8>::new(Operator::Add, 1, 3, 1).build()?;
        let (input, mut sums) = ([200, 100, 1], [0; 3]);
        plan.forward(ScanForward { input: &input, output: &mut sums, ..Default::default() })?;
        assert_eq!(sums, [200, 44, 45]);
        let mut grad = [0; 3];
        let call = ScanBackward { grad_output: &sums, grad_input: Some(&mut grad), ..Default::default() };
        assert!(plan.backward(call).unwrap_err().to_string().contains("integers have no gradients"));
        let plan = Scan::<i64>::new(Operator::Xor, 1, 3, 1).mode(Mode::Exclusive).build()?;
        let mut bits = [0; 3];
        plan.forward(ScanForward { input: &[i64::MIN, 5, 5], output: &mut bits, ..Default::default() })?;
        assert_eq!(bits, [0, i64::MIN, i64::MIN + 5]);
        Ok(())
    }

    #[test]
    fn operators_are_all_of_the_header() {
        let ours: Vec<i64> = Operator::ALL.iter().map(|operator| operator.kind_and_dim().0.into()).collect();
        let theirs = sys::CONSTANTS.iter().filter(|(name, _)| name.starts_with("FLASHSCAN_OPERATOR_"));
        let theirs = theirs.filter(|(name, _)| !name.contains("_FLAG_") && !name.ends_with("_CUSTOM"));
        assert_eq!(ours, theirs.map(|(_, number)| *number).collect::<Vec<_>>());
    }
}
