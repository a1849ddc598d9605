// SPDX-License-Identifier: Apache-2.0
//! Every golden case (tests/golden in the repository) in each of its types. Offsets of 32 bits are given as 64.

#![allow(clippy::needless_update)] // scans alone have no pool

#[path = "support/json.rs"]
mod json;

use flashscan::*;
use json::Json;
use std::fs;
use std::path::Path;

/// Numbers as the file has them: components in f64.
trait Parts: Copy {
    const PARTS: usize;
    fn from_parts(parts: &[f64]) -> Self;
    fn parts(self) -> [f64; 2];
}

trait Number: Element + Default + Parts {}
impl<T: Element + Default + Parts> Number for T {}

macro_rules! real {
    ($($name:ty: $value:ident => $from:expr, $to:expr;)+) => {
        $(impl Parts for $name {
            const PARTS: usize = 1;
            fn from_parts(parts: &[f64]) -> Self {
                let $value = parts[0];
                $from
            }
            fn parts(self) -> [f64; 2] {
                let $value = self;
                [$to, 0.0]
            }
        })+
    };
}

real! {
    f64: v => v, v;
    f32: v => v as f32, f64::from(v);
    Bf16: v => Bf16::from(v as f32), f64::from(f32::from(v));
    F16: v => F16::from(v as f32), f64::from(f32::from(v));
    i64: v => v as i64, v as f64;
    i32: v => v as i32, f64::from(v);
    u8: v => v as u8, f64::from(v);
    bool: v => v != 0.0, f64::from(u8::from(v));
}

impl<T: Parts> Parts for Complex<T> {
    const PARTS: usize = 2;
    fn from_parts(parts: &[f64]) -> Self {
        Complex { re: T::from_parts(&parts[..1]), im: T::from_parts(&parts[1..]) }
    }
    fn parts(self) -> [f64; 2] {
        [self.re.parts()[0], self.im.parts()[0]]
    }
}

/// The arguments of one pass of a case.
struct Tensors<'a> {
    case: &'a Json,
    pass: &'a str,
    tolerance: f64,
}

impl<'a> Tensors<'a> {
    fn new(file: &Json, case: &'a Json, run: &Json, pass: &'a str) -> Self {
        Tensors { case, pass, tolerance: file["tolerance"][run["dtype"].text()].number() }
    }

    fn components(&self, which: &str, name: &str) -> Option<Vec<f64>> {
        let tensor = self.case[self.pass][which].get(name)?;
        Some(tensor["data"].list().iter().map(Json::number).collect())
    }

    fn get<T: Parts>(&self, name: &str) -> Option<Vec<T>> {
        let components = self.components("in", name)?;
        Some(components.chunks(T::PARTS).map(T::from_parts).collect())
    }

    fn space<T: Parts>(&self, name: &str) -> Option<Vec<T>> {
        let components = self.components("out", name)?;
        Some(vec![T::from_parts(&[f64::NAN, f64::NAN]); components.len() / T::PARTS])
    }

    fn check<T: Parts>(&self, name: &str, got: &Option<Vec<T>>) {
        let expected = match self.components("out", name) {
            Some(expected) => expected,
            None => return,
        };
        let got = got.as_ref().unwrap().iter().flat_map(|value| value.parts()[..T::PARTS].to_vec());
        let scale = expected.iter().fold(1.0, |scale, value| f64::max(scale, value.abs()));
        for (i, (got, expected)) in got.zip(&expected).enumerate() {
            let error = (got - expected).abs();
            assert!(error <= self.tolerance * scale, "{name} at {i} is {got}, expected {expected}");
        }
    }

    /// What backward takes of forward.
    fn reused<'b, T: ?Sized>(&self, name: &str, value: Option<&'b T>) -> Option<&'b T> {
        let reuse = self.case["backward"]["reuse"].list();
        value.filter(|_| reuse.iter().any(|word| word.text() == name))
    }
}

/// A field of arguments that must be given, or may.
trait Given<V> {
    fn given(value: Option<V>) -> Self;
}

impl<V> Given<V> for V {
    fn given(value: Option<V>) -> V {
        value.unwrap()
    }
}

impl<V> Given<V> for Option<V> {
    fn given(value: Option<V>) -> Self {
        value
    }
}

/// Runs forward on what it takes, and backward if the case has it on what that takes of forward and anew, and checks what
/// both write.
macro_rules! play {
    ($file:ident, $case:ident, $run:ident, $plan:expr $(=> $reserve:ident)?,
     $forward:ident { $($in:ident: $in_type:ty),+ } -> { $($out:ident: $out_type:ty),+ },
     $backward:ident { $($again:ident),+; $($new:ident: $new_type:ty),+ } -> { $($grad:ident: $grad_type:ty),+ }) => {{
        let tensors = Tensors::new($file, $case, $run, "forward");
        $(let $in = tensors.get::<$in_type>(stringify!($in));)+
        $(let mut $out = tensors.space::<$out_type>(stringify!($out));)+
        $plan.forward($forward {
            $($in: Given::given($in.as_deref()),)+
            $($out: Given::given($out.as_deref_mut()),)+
            $(reserve: $reserve.as_mut(),)?
            ..Default::default()
        })?;
        $(tensors.check(stringify!($out), &$out);)+
        if $case.get("backward").is_none() {
            return Ok(());
        }

        let tensors = Tensors::new($file, $case, $run, "backward");
        $(let $new = tensors.get::<$new_type>(stringify!($new));)+
        $(let mut $grad = tensors.space::<$grad_type>(stringify!($grad));)+
        $plan.backward($backward {
            $($again: Given::given(tensors.reused(stringify!($again), $again.as_deref())),)+
            $($new: Given::given($new.as_deref()),)+
            $($grad: Given::given($grad.as_deref_mut()),)+
            $(reserve: $reserve.as_ref(),)?
        })?;
        $(tensors.check(stringify!($grad), &$grad);)+
        Ok(())
    }};
}

fn field(case: &Json, name: &str) -> usize {
    case["desc"][name].number() as usize
}

fn flag(case: &Json, list: &str, word: &str) -> bool {
    case["desc"].get(list).map_or(false, |words| words.list().iter().any(|other| other.text() == word))
}

fn direction(case: &Json) -> Direction {
    match case["desc"]["direction"].text() {
        "reverse" => Direction::Reverse,
        _ => Direction::Forward,
    }
}

fn layout(case: &Json) -> Layout {
    match case["desc"]["layout"].text() {
        "bct" => Layout::Bct,
        _ => Layout::Btc,
    }
}

fn linear<T: Number, G: Number>(file: &Json, case: &Json, run: &Json) -> Result<(), Error>
where
    T::State: Number,
{
    let mut axes = Broadcast::NONE;
    for (word, axis) in [("batch", Broadcast::BATCH), ("time", Broadcast::TIME), ("channels", Broadcast::CHANNELS)] {
        if flag(case, "gate_broadcast", word) {
            axes = axes | axis;
        }
    }
    let form = match case["desc"]["gate_form"].text() {
        "log" => GateForm::Log,
        "logit" => GateForm::Logit,
        _ => GateForm::Value,
    };
    let mut what = Linear::<T>::new(field(case, "batch"), field(case, "time"), field(case, "channels"))
        .gate_type::<G>()
        .layout(layout(case))
        .gate_form(form)
        .gate_broadcast(axes)
        .direction(direction(case))
        .packed(field(case, "num_sequences"));
    if flag(case, "flags", "reset") {
        what = what.with_reset();
    }
    let plan = what.build()?;
    play!(file, case, run, plan,
        LinearForward { input: T, gate: G, state_in: T::State, reset: bool, seq_offsets: i64 }
            -> { output: T, state_out: T::State },
        LinearBackward { gate, output, state_in, reset, seq_offsets; grad_output: T, grad_state_out: T::State }
            -> { grad_input: T, grad_gate: G, grad_state_in: T::State })
}

fn rnn_plan<T: Number, W: Number>(case: &Json) -> Result<RnnPlan<T, W>, Error> {
    let name = case["desc"]["cell"].text();
    let cell = *Cell::ALL.iter().find(|cell| cell.name() == name).unwrap_or_else(|| panic!("unknown cell {name}"));
    let [batch, time, heads, dim] = ["batch", "time", "heads", "head_dim"].map(|name| field(case, name));
    let mut what = Rnn::<T>::new(cell, batch, time, heads, dim)
        .weight_type::<W>()
        .direction(direction(case))
        .packed(field(case, "num_sequences"))
        .recurrent_clip(case["desc"]["recurrent_clip"].number());
    if case["desc"]["layout"].text() == "tbghd" {
        what = what.layout(RnnLayout::Tbghd);
    }
    if flag(case, "flags", "reset") {
        what = what.with_reset();
    }
    if flag(case, "flags", "all_states") {
        what = what.all_states();
    }
    if flag(case, "flags", "training") {
        what = what.training();
    }
    what.build()
}

fn rnn<T: Number, W: Number>(file: &Json, case: &Json, run: &Json) -> Result<(), Error>
where
    T::State: Number,
{
    let plan = rnn_plan::<T, W>(case)?;
    let mut reserve = flag(case, "flags", "training").then(|| plan.reserve());
    play!(file, case, run, plan => reserve,
        RnnForward { input: T, weight: W, bias: W, state_in: T::State, reset: bool, seq_offsets: i64 }
            -> { output: T, state_out: T::State },
        RnnBackward { weight, output, state_in, reset, seq_offsets; grad_output: T, grad_state_out: T::State }
            -> { grad_input: T, grad_weight: W, grad_bias: W, grad_state_in: T::State })
}

fn scan<T: Number>(file: &Json, case: &Json, run: &Json) -> Result<(), Error>
where
    T::State: Number,
{
    let dim = field(case, "dim");
    let operator = match case["desc"]["kind"].text() {
        "add" => Operator::Add,
        "mul" => Operator::Mul,
        "min" => Operator::Min,
        "max" => Operator::Max,
        "logaddexp" => Operator::LogAddExp,
        "matmul" => Operator::MatMul { dim },
        "affine" => Operator::Affine { dim },
        "and" => Operator::And,
        "or" => Operator::Or,
        "xor" => Operator::Xor,
        other => panic!("unknown kind {other}"),
    };
    let mode = match case["desc"]["mode"].text() {
        "exclusive" => Mode::Exclusive,
        "reduction" => Mode::Reduction,
        _ => Mode::Inclusive,
    };
    let plan = Scan::<T>::new(operator, field(case, "batch"), field(case, "time"), field(case, "channels"))
        .mode(mode)
        .layout(layout(case))
        .direction(direction(case))
        .packed(field(case, "num_sequences"))
        .build()?;
    play!(file, case, run, plan,
        ScanForward { input: T, gate: T, state_in: T::State, seq_offsets: i64 }
            -> { output: T, index: i64, state_out: T::State },
        ScanBackward { input, gate, output, state_in, seq_offsets; grad_output: T, grad_state_out: T::State }
            -> { grad_input: T, grad_gate: T, grad_state_in: T::State })
}

/// The value of a word of a description.
fn chosen<V: Copy>(case: &Json, name: &str, values: &[(&str, V)]) -> V {
    let word = case["desc"][name].text();
    values.iter().find(|(other, _)| *other == word).unwrap_or_else(|| panic!("unknown {name} {word}")).1
}

fn gated_layer<T: Number>(case: &Json) -> Gated<T> {
    let [batch, time, channels] = ["batch", "time", "channels"].map(|name| field(case, name));
    let layers = [
        ("mingru", GatedLayer::MinGru),
        ("minlstm", GatedLayer::MinLstm),
        ("hgrn", GatedLayer::Hgrn),
        ("rglru", GatedLayer::RgLru),
        ("qrnn", GatedLayer::Qrnn),
        ("gilr", GatedLayer::Gilr),
    ];
    if !case["desc"]["layer"].text().is_empty() {
        return Gated::layer(chosen(case, "layer", &layers), batch, time, channels);
    }
    let decays = [
        ("value", Decay::Value),
        ("exp", Decay::Exp),
        ("sigmoid", Decay::Sigmoid),
        ("one_minus_sigmoid", Decay::OneMinusSigmoid),
        ("lower_bound", Decay::LowerBound),
        ("softplus", Decay::Softplus),
        ("ratio", Decay::Ratio),
    ];
    let scales = [("one", Scale::One), ("one_minus", Scale::OneMinus), ("sqrt", Scale::Sqrt)];
    let activations = [
        ("none", Activation::None),
        ("tanh", Activation::Tanh),
        ("silu", Activation::Silu),
        ("positive", Activation::Positive),
    ];
    let epilogues = [
        ("none", Epilogue::None),
        ("sigmoid", Epilogue::Sigmoid),
        ("silu", Epilogue::Silu),
        ("tanh_sigmoid", Epilogue::TanhSigmoid),
    ];
    let what = Gated::new(chosen(case, "decay", &decays), batch, time, channels)
        .scale(chosen(case, "scale", &scales))
        .activation(chosen(case, "activation", &activations))
        .epilogue(chosen(case, "epilogue", &epilogues));
    match case["desc"]["input_gating"].text() {
        "sigmoid" => what.with_input_gate(),
        _ => what,
    }
}

fn gated<T: Number, G: Number>(file: &Json, case: &Json, run: &Json) -> Result<(), Error>
where
    T::State: Number,
{
    let mut what = gated_layer::<T>(case)
        .gate_type::<G>()
        .param_type::<G>()
        .layout(layout(case))
        .direction(direction(case))
        .packed(field(case, "num_sequences"))
        .decay_rate(case["desc"]["decay_rate"].number())
        .sqrt_slope_limit(case["desc"]["sqrt_slope_limit"].number());
    if flag(case, "flags", "reset") {
        what = what.with_reset();
    }
    if flag(case, "flags", "first_step") {
        what = what.first_step();
    }
    let plan = what.build()?;
    let hides_state = case["forward"]["in"].get("output_gate").is_some();
    let mut reserve = hides_state.then(|| plan.reserve());
    play!(file, case, run, plan => reserve,
    GatedForward {
        input: T, gate: G, second_gate: G, input_gate: T, output_gate: T, param: G, bias: G,
        state_in: T::State, reset: bool, seq_offsets: i64
    } -> { output: T, state_out: T::State },
    GatedBackward {
        input, gate, second_gate, input_gate, output_gate, param, bias, output, state_in, reset, seq_offsets;
        grad_output: T, grad_state_out: T::State
    } -> {
        grad_input: T, grad_gate: G, grad_second_gate: G, grad_input_gate: T, grad_output_gate: T,
        grad_param: G, grad_bias: G, grad_state_in: T::State
    })
}

/// A selective scan whose matrices have type `M`, B and C constant or not.
fn selective<T: Number, M: Number + Matrix<T>>(file: &Json, case: &Json, run: &Json) -> Result<(), Error>
where
    T::State: Number + Matrix<T>,
    M::Step: Number,
{
    let [batch, time, channels, states] = ["batch", "time", "channels", "states"].map(|name| field(case, name));
    let mut what = Selective::<T>::new(batch, time, channels, states)
        .matrix_type::<M>()
        .layout(layout(case))
        .direction(direction(case))
        .groups(field(case, "groups"))
        .packed(field(case, "num_sequences"));
    if flag(case, "flags", "softplus") {
        what = what.softplus();
    }
    if flag(case, "flags", "reset") {
        what = what.with_reset();
    }
    match (flag(case, "flags", "b_per_step"), flag(case, "flags", "c_per_step")) {
        (false, false) => play_selective(&what.build()?, file, case, run),
        (true, false) => play_selective(&what.b_per_step().build()?, file, case, run),
        (false, true) => play_selective(&what.c_per_step().build()?, file, case, run),
        (true, true) => play_selective(&what.b_per_step().c_per_step().build()?, file, case, run),
    }
}

fn play_selective<T: Number, M: Number, B: Number, C: Number>(
    plan: &SelectivePlan<T, M, B, C>,
    file: &Json,
    case: &Json,
    run: &Json,
) -> Result<(), Error>
where
    T::State: Number,
{
    play!(file, case, run, plan,
    SelectiveForward {
        input: T, delta: T, a: M, b: B, c: C, d: T::State, bias: T::State, output_gate: T,
        state_in: M, reset: bool, seq_offsets: i64
    } -> { output: T, state_out: M },
    SelectiveBackward {
        input, delta, a, b, c, d, bias, output_gate, state_in, reset, seq_offsets;
        grad_output: T, grad_state_out: M
    } -> {
        grad_input: T, grad_delta: T, grad_a: M, grad_b: B, grad_c: C, grad_d: T::State, grad_bias: T::State,
        grad_output_gate: T, grad_state_in: M
    })
}

/// Calls `play` with each case of a family, each of its runs, and that run's types.
fn for_each(family: &str, other: &str, play: impl Fn(&Json, &Json, &Json, (&str, &str)) -> Result<(), Error>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden/cases.json");
    let file = Json::parse(&fs::read_to_string(path).unwrap());
    let mut played = 0;
    for case in file["cases"].list().iter().filter(|case| case["family"].text() == family) {
        for run in case["runs"].list() {
            println!("{} {run:?}", case["name"].text());
            let dtype = run["dtype"].text();
            play(&file, case, run, (dtype, run.get(other).map_or(dtype, Json::text))).unwrap();
            played += 1;
        }
    }
    assert!(played > 10, "{played} cases");
}

#[test]
fn cells_are_those_of_the_library() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden/cases.json");
    let file = Json::parse(&fs::read_to_string(path).unwrap());
    let theirs: Vec<_> = file["cells"].list().iter().collect();
    assert_eq!(theirs.len(), Cell::ALL.len());
    for (cell, row) in Cell::ALL.iter().zip(theirs) {
        let counts = ["number", "gates", "states", "biases"].map(|name| row[name].number() as usize);
        assert_eq!(cell.name(), row["name"].text());
        assert_eq!([*cell as usize, cell.gates(), cell.states(), cell.biases()], counts, "{}", cell.name());
    }
}

#[test]
fn linear_cases() {
    for_each("linear", "gate_dtype", |file, case, run, types| match types {
        ("f64", "f64") => linear::<f64, f64>(file, case, run),
        ("f32", "f32") => linear::<f32, f32>(file, case, run),
        ("bf16", "bf16") => linear::<Bf16, Bf16>(file, case, run),
        ("bf16", "f32") => linear::<Bf16, f32>(file, case, run),
        ("f16", "f16") => linear::<F16, F16>(file, case, run),
        ("f16", "f32") => linear::<F16, f32>(file, case, run),
        ("c64", "c64") => linear::<Complex<f32>, Complex<f32>>(file, case, run),
        ("c64", "f32") => linear::<Complex<f32>, f32>(file, case, run),
        ("c128", "c128") => linear::<Complex<f64>, Complex<f64>>(file, case, run),
        ("c128", "f64") => linear::<Complex<f64>, f64>(file, case, run),
        other => panic!("unknown types {other:?}"),
    });
}

#[test]
fn rnn_cases() {
    for_each("rnn", "weight_dtype", |file, case, run, types| match types {
        ("f64", "f64") => rnn::<f64, f64>(file, case, run),
        ("f32", "f32") => rnn::<f32, f32>(file, case, run),
        ("bf16", "bf16") => rnn::<Bf16, Bf16>(file, case, run),
        ("bf16", "f32") => rnn::<Bf16, f32>(file, case, run),
        ("f16", "f16") => rnn::<F16, F16>(file, case, run),
        ("f16", "f32") => rnn::<F16, f32>(file, case, run),
        other => panic!("unknown types {other:?}"),
    });
}

#[test]
fn operator_cases() {
    for_each("operator", "", |file, case, run, (dtype, _)| match dtype {
        "f64" => scan::<f64>(file, case, run),
        "f32" => scan::<f32>(file, case, run),
        "bf16" => scan::<Bf16>(file, case, run),
        "f16" => scan::<F16>(file, case, run),
        "c64" => scan::<Complex<f32>>(file, case, run),
        "c128" => scan::<Complex<f64>>(file, case, run),
        "i64" => scan::<i64>(file, case, run),
        "i32" => scan::<i32>(file, case, run),
        "u8" => scan::<u8>(file, case, run),
        other => panic!("unknown type {other}"),
    });
}

#[test]
fn gated_cases() {
    for_each("gated", "gate_dtype", |file, case, run, types| match types {
        ("f64", "f64") => gated::<f64, f64>(file, case, run),
        ("f32", "f32") => gated::<f32, f32>(file, case, run),
        ("bf16", "bf16") => gated::<Bf16, Bf16>(file, case, run),
        ("bf16", "f32") => gated::<Bf16, f32>(file, case, run),
        ("f16", "f16") => gated::<F16, F16>(file, case, run),
        ("f16", "f32") => gated::<F16, f32>(file, case, run),
        other => panic!("unknown types {other:?}"),
    });
}

#[test]
fn selective_cases() {
    for_each("selective", "matrix_dtype", |file, case, run, types| match types {
        ("f64", "f64") => selective::<f64, f64>(file, case, run),
        ("f32", "f32") => selective::<f32, f32>(file, case, run),
        ("bf16", "bf16") => selective::<Bf16, f32>(file, case, run),
        ("f16", "f16") => selective::<F16, f32>(file, case, run),
        ("f64", "c128") => selective::<f64, Complex<f64>>(file, case, run),
        ("f32", "c64") => selective::<f32, Complex<f32>>(file, case, run),
        other => panic!("unknown types {other:?}"),
    });
}
