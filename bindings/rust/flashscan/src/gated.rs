// SPDX-License-Identifier: Apache-2.0
use crate::element::Element;
use crate::error::Error;
use crate::options::Options;
use crate::plan::{arguments, extent, setters, typed_plan, Plan};
use crate::pool::Pool;
use crate::reserve::Reserve;
use crate::{Direction, Layout, StateStrides, Strides};
use flashscan_sys as sys;
use std::marker::PhantomData;

/// Layers with a name; what each is made of is in the C header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GatedLayer {
    MinGru = sys::FLASHSCAN_GATED_LAYER_MINGRU as isize,
    /// Takes `second_gate`.
    MinLstm = sys::FLASHSCAN_GATED_LAYER_MINLSTM as isize,
    /// Takes `param`, the lower bound.
    Hgrn = sys::FLASHSCAN_GATED_LAYER_HGRN as isize,
    /// Takes `input_gate` and `param`.
    RgLru = sys::FLASHSCAN_GATED_LAYER_RGLRU as isize,
    /// Takes `output_gate`.
    Qrnn = sys::FLASHSCAN_GATED_LAYER_QRNN as isize,
    Gilr = sys::FLASHSCAN_GATED_LAYER_GILR as isize,
}

/// How `a` comes of the gate `g` (plus the bias) and, with `s(x) = 1 / (1 + exp(-x))`, a parameter `p` of the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decay {
    /// `a = g`
    Value = sys::FLASHSCAN_GATED_DECAY_VALUE as isize,
    /// `a = exp(g)`
    Exp = sys::FLASHSCAN_GATED_DECAY_EXP as isize,
    /// `a = s(g)`
    Sigmoid = sys::FLASHSCAN_GATED_DECAY_SIGMOID as isize,
    /// `a = 1 - s(g)`
    OneMinusSigmoid = sys::FLASHSCAN_GATED_DECAY_ONE_MINUS_SIGMOID as isize,
    /// `a = p + (1 - p) s(g)`
    LowerBound = sys::FLASHSCAN_GATED_DECAY_LOWER_BOUND as isize,
    /// `a = exp(-c log(1 + exp(p)) s(g))` with c of [`Gated::decay_rate`]
    Softplus = sys::FLASHSCAN_GATED_DECAY_SOFTPLUS as isize,
    /// `a = s(g) / (s(g) + s(second_gate))`
    Ratio = sys::FLASHSCAN_GATED_DECAY_RATIO as isize,
}

/// What the value is multiplied by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scale {
    One = sys::FLASHSCAN_GATED_SCALE_ONE as isize,
    /// `1 - a`
    OneMinus = sys::FLASHSCAN_GATED_SCALE_ONE_MINUS as isize,
    /// `sqrt(1 - a^2)`
    Sqrt = sys::FLASHSCAN_GATED_SCALE_SQRT as isize,
}

/// What becomes of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    None = sys::FLASHSCAN_GATED_ACTIVATION_NONE as isize,
    Tanh = sys::FLASHSCAN_GATED_ACTIVATION_TANH as isize,
    /// `x s(x)`
    Silu = sys::FLASHSCAN_GATED_ACTIVATION_SILU as isize,
    /// `x + 1/2` for `x >= 0`, else `s(x)`
    Positive = sys::FLASHSCAN_GATED_ACTIVATION_POSITIVE as isize,
}

/// What the output is, with `o` of `output_gate`, which all but `None` take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Epilogue {
    /// `h`
    None = sys::FLASHSCAN_GATED_EPILOGUE_NONE as isize,
    /// `h s(o)`
    Sigmoid = sys::FLASHSCAN_GATED_EPILOGUE_SIGMOID as isize,
    /// `h o s(o)`
    Silu = sys::FLASHSCAN_GATED_EPILOGUE_SILU as isize,
    /// `tanh(h) s(o)`
    TanhSigmoid = sys::FLASHSCAN_GATED_EPILOGUE_TANH_SIGMOID as isize,
}

/// Strides of the tensors of a gated layer, or of their gradients; zeros for those that are dense or not there.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GatedStrides {
    pub input: Strides,
    pub gate: Strides,
    pub second_gate: Strides,
    pub input_gate: Strides,
    pub output_gate: Strides,
    pub output: Strides,
}

/// Makes plans for gated layers, elementwise over batch and channels: `h[t] = a[t] h[t-1] + scale(a[t]) v[t]` with
/// `a[t] = decay(gate[t] + bias)` and `v[t] = activation(input[t])`, times `s(input_gate[t])` where that is asked for. The
/// output is `epilogue(h[t])`. `T` is the type of the data, `G` that of `gate` and `second_gate`, `P` that of `param` and
/// `bias`: the same, or `f32` with 16-bit data.
///
/// ```
/// use flashscan::{Gated, GatedBackward, GatedForward, GatedLayer};
///
/// # fn main() -> Result<(), flashscan::Error> {
/// let (batch, time, channels) = (1, 3, 1);
/// let plan = Gated::<f64>::layer(GatedLayer::MinGru, batch, time, channels).build()?;
///
/// // a = 1 - s(0) = 1/2 and v = 1/2 + 1/2 at every step.
/// let (gate, input) = ([0.0; 3], [0.5; 3]);
/// let mut h = [0.0; 3];
/// plan.forward(GatedForward { gate: &gate, input: &input, output: &mut h, ..Default::default() })?;
/// assert!(h.iter().zip([0.5, 0.75, 0.875]).all(|(got, expected)| (got - expected).abs() < 1e-15));
///
/// let mut grad_input = [0.0; 3];
/// plan.backward(GatedBackward {
///     gate: &gate,
///     input: Some(&input),
///     output: Some(&h),
///     grad_output: &[0.0, 0.0, 1.0],
///     grad_input: Some(&mut grad_input),
///     ..Default::default()
/// })?;
/// assert!(grad_input.iter().zip([0.125, 0.25, 0.5]).all(|(got, expected)| (got - expected).abs() < 1e-15));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Gated<T: Element, G: Element = T, P: Element = T> {
    desc: sys::flashscan_gated_desc,
    options: Options,
    types: PhantomData<fn(T, G, P)>,
}

impl<T: Element> Gated<T, T, T> {
    /// A layer of its parts; those not named are `One` and `None`, and the input has no gate.
    pub fn new(decay: Decay, batch: usize, time: usize, channels: usize) -> Self {
        let mut gated = Self::empty([batch, time, channels]);
        gated.desc.decay = decay as i32;
        gated
    }

    /// A layer with a name, whose parts are given by it.
    pub fn layer(layer: GatedLayer, batch: usize, time: usize, channels: usize) -> Self {
        let mut gated = Self::empty([batch, time, channels]);
        gated.desc.layer = layer as i32;
        gated
    }

    fn empty([batch, time, channels]: [usize; 3]) -> Self {
        let desc = sys::flashscan_gated_desc {
            struct_size: std::mem::size_of::<sys::flashscan_gated_desc>() as u32,
            dtype: T::DTYPE,
            gate_dtype: T::DTYPE,
            param_dtype: T::DTYPE,
            batch: extent(batch),
            time: extent(time),
            channels: extent(channels),
            ..Default::default()
        };
        Self { desc, options: Options::new(), types: PhantomData }
    }
}

impl<T: Element, G: Element, P: Element> Gated<T, G, P> {
    /// `gate` and `second_gate` of another type than the data.
    pub fn gate_type<Other: Element>(mut self) -> Gated<T, Other, P> {
        self.desc.gate_dtype = Other::DTYPE;
        Gated { desc: self.desc, options: self.options, types: PhantomData }
    }

    /// `param` and `bias` of another type than the data.
    pub fn param_type<Other: Element>(mut self) -> Gated<T, G, Other> {
        self.desc.param_dtype = Other::DTYPE;
        Gated { desc: self.desc, options: self.options, types: PhantomData }
    }

    setters! {
        scale(scale: Scale) |desc| desc.scale = scale as i32;
        activation(activation: Activation) |desc| desc.activation = activation as i32;
        /// The value is multiplied by `s(input_gate)`.
        with_input_gate() |desc| desc.input_gating = sys::FLASHSCAN_GATED_INPUT_GATE_SIGMOID;
        epilogue(epilogue: Epilogue) |desc| desc.epilogue = epilogue as i32;
        /// The c of [`Decay::Softplus`]; 0: 8.
        decay_rate(rate: f64) |desc| desc.decay_rate = rate;
        /// Limits the derivative of the root of [`Scale::Sqrt`]; 0: no limit.
        sqrt_slope_limit(limit: f64) |desc| desc.sqrt_slope_limit = limit;
        /// The scale is 1 where a sequence starts; part of [`GatedLayer::RgLru`].
        first_step() |desc| desc.flags |= sys::FLASHSCAN_GATED_FLAG_FIRST_STEP;
        layout(layout: Layout) |desc| desc.layout = layout as i32;
        direction(direction: Direction) |desc| desc.direction = direction as i32;
        /// Calls take `reset` [B, T]: where it is true the carried state is 0 before the step.
        with_reset() |desc| desc.flags |= sys::FLASHSCAN_GATED_FLAG_RESET;
        /// So many sequences one after another in one row (batch 1); calls take `seq_offsets`.
        packed(sequences: usize) |desc| desc.num_sequences = extent(sequences);
        strides(strides: GatedStrides) |desc| {
            (desc.input, desc.gate, desc.second_gate) = (strides.input, strides.gate, strides.second_gate);
            (desc.input_gate, desc.output_gate, desc.output) = (strides.input_gate, strides.output_gate, strides.output);
        };
        /// Strides of the gradients.
        grad_strides(strides: GatedStrides) |desc| {
            (desc.grad_input, desc.grad_gate) = (strides.input, strides.gate);
            (desc.grad_second_gate, desc.grad_input_gate) = (strides.second_gate, strides.input_gate);
            (desc.grad_output_gate, desc.grad_output) = (strides.output_gate, strides.output);
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

    pub fn build(&self) -> Result<GatedPlan<T, G, P>, Error> {
        let plan = Plan::new(sys::flashscan_plan_gated, &self.desc, &self.options)?;
        Ok(GatedPlan { plan, types: PhantomData })
    }
}

typed_plan! {
    /// A plan made by [`Gated`].
    GatedPlan<T, G = T, P = T>: GatedForward, GatedBackward
}

impl<T: Element, G: Element, P: Element> GatedPlan<T, G, P> {
    /// What forward leaves for backward where there is an epilogue; empty without one, and then not an argument.
    pub fn reserve(&self) -> Reserve {
        Reserve::of(self)
    }
}

arguments! {
    /// Arguments of [`GatedPlan::forward`]. Data and gates are [B, T, C], or [B, C, T] in that layout; states are [B, C], or
    /// [sequences, C] if packed.
    GatedForward<'a, T: Element, G: Element, P: Element> {
        input: &'a [T] = sys::FLASHSCAN_ARG_INPUT,
        gate: &'a [G] = sys::FLASHSCAN_ARG_GATE,
        /// Of [`Decay::Ratio`].
        second_gate: Option<&'a [G]> = sys::FLASHSCAN_ARG_SECOND_GATE,
        input_gate: Option<&'a [T]> = sys::FLASHSCAN_ARG_INPUT_GATE,
        /// Of all epilogues but [`Epilogue::None`].
        output_gate: Option<&'a [T]> = sys::FLASHSCAN_ARG_OUTPUT_GATE,
        /// `[C]`, of [`Decay::LowerBound`] and [`Decay::Softplus`].
        param: Option<&'a [P]> = sys::FLASHSCAN_ARG_PARAM,
        /// `[C]`, added to the gate; zeros if left out.
        bias: Option<&'a [P]> = sys::FLASHSCAN_ARG_BIAS,
        /// Written.
        output: &'a mut [T] = sys::FLASHSCAN_ARG_OUTPUT,
        /// h before the first step; zeros if left out.
        state_in: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_STATE_IN,
        /// Written: h after the last step.
        state_out: Option<&'a mut [T::State]> = sys::FLASHSCAN_ARG_STATE_OUT,
        /// Read and written, of a plan with `state_pool`.
        pool: Option<Pool<'a, T::State>> = sys::FLASHSCAN_ARG_STATE_INDICES,
        /// Written, for backward of a layer with an epilogue.
        reserve: Option<&'a mut Reserve> = sys::FLASHSCAN_ARG_RESERVE,
        reset: Option<&'a [bool]> = sys::FLASHSCAN_ARG_RESET,
        seq_offsets: Option<&'a [i64]> = sys::FLASHSCAN_ARG_SEQ_OFFSETS,
    }
}

arguments! {
    /// Arguments of [`GatedPlan::backward`], of the shapes of forward; at least one of the gradients that are written.
    GatedBackward<'a, T: Element, G: Element, P: Element> {
        /// Needed unless the value is the input itself and its scale is 1.
        input: Option<&'a [T]> = sys::FLASHSCAN_ARG_INPUT,
        gate: &'a [G] = sys::FLASHSCAN_ARG_GATE,
        second_gate: Option<&'a [G]> = sys::FLASHSCAN_ARG_SECOND_GATE,
        input_gate: Option<&'a [T]> = sys::FLASHSCAN_ARG_INPUT_GATE,
        output_gate: Option<&'a [T]> = sys::FLASHSCAN_ARG_OUTPUT_GATE,
        param: Option<&'a [P]> = sys::FLASHSCAN_ARG_PARAM,
        /// If it was given to forward.
        bias: Option<&'a [P]> = sys::FLASHSCAN_ARG_BIAS,
        /// Of forward without an epilogue; needed for the gradients of the gates, `param` and `bias`.
        output: Option<&'a [T]> = sys::FLASHSCAN_ARG_OUTPUT,
        /// Of forward with an epilogue.
        reserve: Option<&'a Reserve> = sys::FLASHSCAN_ARG_RESERVE,
        grad_output: &'a [T] = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_OUTPUT,
        /// If it was given to forward.
        state_in: Option<&'a [T::State]> = sys::FLASHSCAN_ARG_STATE_IN,
        grad_state_out: Option<&'a [T::State]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_STATE_OUT,
        reset: Option<&'a [bool]> = sys::FLASHSCAN_ARG_RESET,
        seq_offsets: Option<&'a [i64]> = sys::FLASHSCAN_ARG_SEQ_OFFSETS,
        /// Written, as all below.
        grad_input: Option<&'a mut [T]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_INPUT,
        grad_gate: Option<&'a mut [G]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_GATE,
        grad_second_gate: Option<&'a mut [G]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_SECOND_GATE,
        grad_input_gate: Option<&'a mut [T]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_INPUT_GATE,
        grad_output_gate: Option<&'a mut [T]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_OUTPUT_GATE,
        grad_param: Option<&'a mut [P]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_PARAM,
        grad_bias: Option<&'a mut [P]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_BIAS,
        grad_state_in: Option<&'a mut [T::State]> = sys::FLASHSCAN_GRAD | sys::FLASHSCAN_ARG_STATE_IN,
    }
}
