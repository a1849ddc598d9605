# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from . import _library as lib
from ._axis import TimeAxis, along
from ._call import Call, Kind, Problem, choose, dtype_beside, flag, kind, number, real_number, same_dtype, same_shape, words
from ._errors import FlashscanTypeError, FlashscanValueError
from ._linear import LAYOUTS, _read, _write
from ._out import check_out
from ._spaces import Spec
from ._types import Activation, Array, ArrayLike, Decay, Epilogue, Layer, Layout, Scale

if TYPE_CHECKING:
    from ._options import GatedOutOptions, Unpack


def _numbers(first: int, names: str) -> dict[str, int]:
    return {name: first + i for i, name in enumerate(names.split())}


LAYERS = _numbers(lib.GATED_LAYER_MINGRU, "mingru minlstm hgrn rglru qrnn gilr")
DECAYS = _numbers(
    lib.GATED_DECAY_VALUE, "value exp sigmoid one_minus_sigmoid lower_bound softplus ratio"
)
SCALES = _numbers(lib.GATED_SCALE_ONE, "one one_minus sqrt")
ACTIVATIONS = _numbers(lib.GATED_ACTIVATION_NONE, "none tanh silu positive")
EPILOGUES = _numbers(lib.GATED_EPILOGUE_NONE, "none sigmoid silu tanh_sigmoid")


class Parts(NamedTuple):
    """What a layer consists of beside its input gate."""

    decay: str
    scale: str
    activation: str
    epilogue: str = "none"
    first_step: bool = False


PARTS = {
    "mingru": Parts("one_minus_sigmoid", "one_minus", "positive"),
    "minlstm": Parts("ratio", "one_minus", "positive"),
    "hgrn": Parts("lower_bound", "one_minus", "silu"),
    "rglru": Parts("softplus", "sqrt", "none", first_step=True),
    "qrnn": Parts("sigmoid", "one_minus", "tanh", "sigmoid"),
    "gilr": Parts("sigmoid", "one_minus", "tanh"),
}


def parts_of(layer: str | None, *parts: Any) -> Parts:
    """Those of the layer, or ``parts`` themselves where none is named; ``first_step`` goes with every layer."""
    given = Parts(*parts)
    return PARTS[layer]._replace(first_step=PARTS[layer].first_step or given.first_step) if layer else given


_DENSE = (0, 0, 0)
_BESIDE = {lib.BF16: lib.F32, lib.F16: lib.F32}
# What may be given beside gate and input, in the order of arguments.
_EXTRA = ("second_gate", "input_gate", "output_gate", "param", "bias")
_EXTRA_NUMBERS = (lib.SECOND_GATE, lib.INPUT_GATE, lib.OUTPUT_GATE, lib.PARAM, lib.BIAS)


def hides_state(layer: str | None, epilogue: str) -> bool:
    """Whether the output is not h."""
    return layer == "qrnn" if layer is not None else epilogue != "none"


def _check_extra(layer: str | None, decay: str | None, epilogue: str, extra: list[Spec | None]) -> None:
    """Refuses that a gate or a parameter of the layer is missing, and those that it does not have."""
    needed = {
        "second_gate": layer == "minlstm" or decay == "ratio",
        "input_gate": layer == "rglru",
        "output_gate": hides_state(layer, epilogue),
        "param": layer in ("hgrn", "rglru") or decay in ("lower_bound", "softplus"),
    }
    free = {"bias"} if layer is not None else {"bias", "input_gate"}
    for name, array in zip(_EXTRA, extra):
        if name not in free and (array is not None) != needed[name]:
            parts = f"decay {decay!r} and epilogue {epilogue!r}" if layer is None else f"layer {layer!r}"
            given, accepted = ("None", "are arrays") if array is None else ("an array", "is None")
            raise FlashscanValueError(f"{name} is {given}; accepted with {parts} {accepted}")


def keeps_input(layer: str | None, scale: str, activation: str, has_input_gate: bool) -> bool:
    """Whether backward reads the input."""
    return layer is not None or scale != "one" or activation != "none" or has_input_gate


_NO_PARTS = (None, "one", "none", "none")


class _Layer:
    """What both passes have in common. ``options``: layer, decay, scale, activation, epilogue, first_step, decay_rate,
    sqrt_slope_limit, layout, reverse, threads."""

    fields: tuple[Any, ...]

    def __init__(
        self,
        problem: Problem,
        gate: Spec,
        like: Spec,
        extra: list[Spec | None],
        masks: tuple[Any, ...],
        options: tuple[Any, ...],
    ) -> None:
        layer, decay, scale, activation, epilogue, first, rate, limit, layout, reverse, self.threads = options
        words(True, layer=layer, decay=decay)
        words(scale=scale, activation=activation, epilogue=epilogue)
        if len(like.shape) != 3:
            raise FlashscanValueError(f"{like.name} has shape {like.shape}; accepted are arrays of 3 axes")
        layout_number, self.axes = choose("layout", layout, LAYOUTS)
        data, flags = real_number(like), lib.GATED_FLAG_FIRST_STEP if flag("first_step", first) else 0
        second, input_gate, output_gate, param, bias = extra
        parts: tuple[Any, ...] = (0, 0, 0, 0, 0)
        if layer is None:
            parts = (choose("decay", decay, DECAYS), choose("scale", scale, SCALES))
            parts += (choose("activation", activation, ACTIVATIONS),)
            parts += (lib.GATED_INPUT_GATE_NONE if input_gate is None else lib.GATED_INPUT_GATE_SIGMOID,)
            parts += (choose("epilogue", epilogue, EPILOGUES),)
        elif (decay, scale, activation, epilogue) != _NO_PARTS:
            named = zip(("decay", "scale", "activation", "epilogue"), (decay, scale, activation, epilogue), _NO_PARTS)
            part, given, none = next(each for each in named if each[1] != each[2])
            raise FlashscanValueError(
                f"{part} is {given!r} with layer {layer!r}, which says what its parts are; accepted is {none!r}"
            )
        _check_extra(layer, decay, epilogue, extra)
        batch, time, channels = (like.shape[axis] for axis in self.axes)
        sequences, offsets = problem.read_offsets(masks[0], like, batch)
        flags |= problem.read_reset(masks[1], (batch, time), lib.GATED_FLAG_RESET)
        strides = {}
        for name, array, arg in (("gate", gate, lib.GATE), *zip(_EXTRA[:3], extra, _EXTRA_NUMBERS)):
            strides[name] = _DENSE if array is None else self._tensor(problem, arg, array, like, name in ("gate", "second_gate"))
        for array, arg in ((param, lib.PARAM), (bias, lib.BIAS)):
            if array is not None:
                dtype_beside(array, like, _BESIDE)
                same_shape(array, (channels,))
                problem.read(arg, array)
        if second is not None:
            same_dtype(second, gate.dtype)
        if param is not None and bias is not None:
            same_dtype(bias, param.dtype)
        params = next((spec.number for spec in (param, bias) if spec is not None), 0)
        self.fields = (data, gate.number, params, layout_number, 0 if layer is None else choose("layer", layer, LAYERS), *parts)
        self.fields += (lib.direction(flag("reverse", reverse)), flags, offsets, batch, time, channels, sequences)
        self.fields += (number("decay_rate", rate), number("sqrt_slope_limit", limit))
        self.strides = strides
        self.state_shape = (sequences if problem.packed else batch, channels)
        self.state_dtype = problem.state_dtype(like.dtype, data)

    def _tensor(self, problem: Problem, arg: int, array: Spec, like: Spec, beside: bool) -> tuple[int, ...]:
        same_shape(array, like.shape)
        if beside:
            dtype_beside(array, like, _BESIDE)
        else:
            same_dtype(array, like.dtype)
        return _read(problem, arg, array, self.axes)

    def plan(self, problem: Problem, pool: tuple[Any, ...] = (), **given: tuple[int, ...]) -> lib.Plan:
        names = [name for name, *_ in lib.GatedDesc._fields_[20:32]]
        strides = [given.get(name, self.strides.get(name, _DENSE)) for name in names]
        return problem.plan("gated", (*self.fields, *strides, *pool), self.threads)


@kind(1, "gate", "input", "initial_state?", *(name + "?" for name in _EXTRA), "seq_offsets?", "reset?", "out?")
def forward(problem: Problem, final: bool, reserve: bool, *options: Any) -> Call:
    gate, x, state, *extra, seq_offsets, reset, out = problem.specs
    layer = _Layer(problem, gate, x, extra, (seq_offsets, reset), options)
    strides = _read(problem, lib.INPUT, x, layer.axes)
    problem.read_converted(lib.STATE_IN, state, layer.state_shape, layer.state_dtype)
    plan = layer.plan(problem, input=strides, output=_write(problem, out, x, layer.axes))
    if flag("return_final_state", final):
        problem.write(lib.STATE_OUT, layer.state_shape, layer.state_dtype)
    if flag("return_reserve", reserve):
        if not hides_state(options[0], options[4]):
            raise FlashscanValueError("return_reserve is True; accepted is False where the epilogue is \"none\"")
        problem.write_bytes(lib.RESERVE, plan.arg_bytes(False, lib.RESERVE))
    return problem.call(plan, False)


@kind(
    3,
    "gate",
    "input?",
    "states",
    "grad_output",
    "initial_state?",
    "grad_final_state?",
    *(name + "?" for name in _EXTRA),
    "seq_offsets?",
    "reset?",
)
def backward(problem: Problem, *options: Any) -> Call:
    gate, x, states, grad, state, grad_state, *extra, seq_offsets, reset = problem.specs
    layer = _Layer(problem, gate, grad, extra, (seq_offsets, reset), options)
    strides = {"grad_output": _read(problem, lib.GRAD | lib.OUTPUT, grad, layer.axes)}
    if keeps_input(options[0], options[2], options[3], extra[1] is not None):
        if x is None:
            raise FlashscanValueError("input is None; accepted is what gated_scan was given")
        same_shape(x, grad.shape)
        same_dtype(x, grad.dtype)
        strides["input"] = _read(problem, lib.INPUT, x, layer.axes)
    if hides_state(options[0], options[4]):
        if states.number != lib.U8 or not states.dense:
            raise FlashscanTypeError(f"states has dtype {states.dtype}; accepted is what gated_scan returned as its reserve")
        problem.read(lib.RESERVE, states)
    else:
        same_shape(states, grad.shape)
        same_dtype(states, grad.dtype)
        strides["output"] = _read(problem, lib.OUTPUT, states, layer.axes)
    problem.read_converted(lib.STATE_IN, state, layer.state_shape, layer.state_dtype)
    problem.read_converted(lib.GRAD | lib.STATE_OUT, grad_state, layer.state_shape, layer.state_dtype)
    problem.write(lib.GRAD | lib.GATE, gate.shape, gate.dtype)
    problem.write(lib.GRAD | lib.INPUT, grad.shape, grad.dtype)
    problem.write(lib.GRAD | lib.STATE_IN, layer.state_shape, layer.state_dtype)
    for array, arg in zip(extra, _EXTRA_NUMBERS):
        if array is not None:
            problem.write(lib.GRAD | arg, array.shape, array.dtype)
    return problem.call(layer.plan(problem, **strides), True)


def named_gradients(results: list[Any], extra: tuple[Any, ...]) -> dict[str, Any]:
    """By the names of arguments, None for those that there are not."""
    given = iter(results[3:])
    gradients = dict(zip(("gate", "input", "initial_state"), results))
    return {**gradients, **{name: None if array is None else next(given) for name, array in zip(_EXTRA, extra)}}


def _along(kind: Kind, arrays: tuple[Any, ...], options: tuple[Any, ...], axis: Any) -> list[Any]:
    """``forward`` or ``backward`` with time at ``axis`` of arrays of any rank."""
    layer, _, _, _, epilogue, _, _, _, layout, *_ = options if kind is backward else options[2:]
    reserve = kind is backward and hides_state(layer, epilogue)

    def call(space: Any, time: TimeAxis, given: dict[str, Any]) -> list[Any]:
        views = [array if name == "states" and reserve else time.view(name, array) for name, array in given.items()]
        results = kind(views, options)
        if kind is forward:
            shapes = [time.shape] * (given["out"] is None) + [time.state_shape] * bool(options[0])
        else:
            shapes = [time.shape, time.shape, time.state_shape]
            shapes += [given[name].shape for name in _EXTRA if given[name] is not None]
        return [result.reshape(shape) for result, shape in zip(results, shapes)] + results[len(shapes) :]

    return along(kind, arrays, layout, axis, call)


@overload
def gated_scan(
    gate: Array, input: Array, initial_state: ArrayLike | None = None, *, return_final_state: Literal[False] = False,
    return_reserve: Literal[False] = False, **options: Unpack[GatedOutOptions[Array]],
) -> Array: ...  # fmt: skip
@overload
def gated_scan(
    gate: Array, input: Array, initial_state: ArrayLike | None = None, *, return_final_state: Literal[True],
    return_reserve: Literal[False] = False, **options: Unpack[GatedOutOptions[Array]],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def gated_scan(
    gate: Array, input: Array, initial_state: ArrayLike | None = None, *, return_final_state: Literal[False] = False,
    return_reserve: Literal[True], **options: Unpack[GatedOutOptions[Array]],
) -> tuple[Array, Any]: ...  # fmt: skip
@overload
def gated_scan(
    gate: Array, input: Array, initial_state: ArrayLike | None = None, *, return_final_state: Literal[True],
    return_reserve: Literal[True], **options: Unpack[GatedOutOptions[Array]],
) -> tuple[Array, Array, Any]: ...  # fmt: skip
@overload
def gated_scan(
    gate: Array, input: Array, initial_state: ArrayLike | None = None, *, return_final_state: bool = False,
    return_reserve: bool = False, **options: Unpack[GatedOutOptions[Array]],
) -> Array | tuple[Any, ...]: ...  # fmt: skip
def gated_scan(
    gate: Array,
    input: Array,
    initial_state: ArrayLike | None = None,
    *,
    layer: Layer | None = None,
    decay: Decay | None = None,
    scale: Scale = "one",
    activation: Activation = "none",
    epilogue: Epilogue = "none",
    second_gate: Array | None = None,
    input_gate: Array | None = None,
    output_gate: Array | None = None,
    param: Array | None = None,
    bias: Array | None = None,
    first_step: bool = False,
    decay_rate: float = 0.0,
    sqrt_slope_limit: float = 0.0,
    layout: Layout = "btc",
    axis: int | None = None,
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_final_state: bool = False,
    return_reserve: bool = False,
    out: Array | None = None,
    threads: int = 0,
) -> Array | tuple[Any, ...]:
    """A gated layer in one pass: ``h[t] = a[t] * h[t-1] + scale(a[t]) * v[t]`` with ``a = decay(gate + bias)`` and
    ``v = activation(input) * sigmoid(input_gate)``; the output is ``epilogue(h)``.

    Args:
        gate: of the input's shape; of its dtype, or float32 with 16-bit input.
        input: [B, T, C], or [B, C, T] with ``layout="bct"``; float32, float64, float16 or bfloat16.
        initial_state: [B, C], [N, C] with ``seq_offsets``; zeros if not given.
        layer: "mingru", "minlstm", "hgrn", "rglru", "qrnn" or "gilr"; None: the parts say what is computed.
        decay: "value": a = gate; "exp"; "sigmoid"; "one_minus_sigmoid"; "lower_bound": p + (1 - p) sigmoid(gate) with
            ``param``; "softplus": exp(-decay_rate softplus(p) sigmoid(gate)) with ``param``; "ratio":
            sigmoid(gate) / (sigmoid(gate) + sigmoid(second_gate)).
        scale: "one", "one_minus": 1 - a, or "sqrt": sqrt(1 - a^2).
        activation: "none", "tanh", "silu", or "positive": x + 1/2 for x >= 0, else sigmoid(x).
        epilogue: "none", "sigmoid": h sigmoid(o), "silu": h silu(o), or "tanh_sigmoid": tanh(h) sigmoid(o), with o the
            ``output_gate``.
        second_gate, input_gate, output_gate: as the input, where the layer has them; the second gate of the gate's dtype.
        param, bias: [C], of the input's dtype, or float32 with 16-bit input.
        first_step: the scale is 1 where a sequence starts: at resets, and at first steps without ``initial_state``.
            Part of "rglru".
        decay_rate: c of "softplus"; 0: 8.
        sqrt_slope_limit: the largest derivative of "sqrt" that backward passes on; 0: no limit.
        layout, reverse, seq_offsets, reset, threads: as in ``linear_scan``.
        axis: the axis of time of an input of any rank, in the place of ``layout``. Gates have the input's shape,
            ``initial_state`` that without this axis, ``param`` and ``bias`` that of the axes behind it, and ``reset`` that up to
            and with it; with ``seq_offsets`` the extents before it are 1, and states are ``[N, *axes behind it]``. Views are
            read as in ``linear_scan``.
        return_final_state: also return h after the last step.
        return_reserve: also return what ``gated_scan_backward`` needs of h; with an epilogue alone.
        out: an array that the output is written to, as in ``linear_scan``: one that overlaps no argument, or the input itself,
            of which backward then has nothing left.

    Returns:
        The output, of the input's package, shape and dtype: ``out``, or a new dense array; a tuple of it, the final state and
        the reserve where these are asked for.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    parts = (layer, decay, scale, activation, epilogue, first_step, decay_rate, sqrt_slope_limit)
    options = (return_final_state, return_reserve, *parts, layout, reverse, threads)
    arrays = (gate, input, initial_state, second_gate, input_gate, output_gate, param, bias, seq_offsets, reset, out)
    check_out(out, input)
    results = forward(arrays, options) if axis is None else _along(forward, arrays, options, axis)
    results = results if out is None else [out, *results]
    return tuple(results) if len(results) > 1 else results[0]


def gated_scan_backward(
    gate: Array,
    input: Array | None,
    states: Array,
    grad_output: Array,
    initial_state: ArrayLike | None = None,
    grad_final_state: ArrayLike | None = None,
    *,
    layer: Layer | None = None,
    decay: Decay | None = None,
    scale: Scale = "one",
    activation: Activation = "none",
    epilogue: Epilogue = "none",
    second_gate: Array | None = None,
    input_gate: Array | None = None,
    output_gate: Array | None = None,
    param: Array | None = None,
    bias: Array | None = None,
    first_step: bool = False,
    decay_rate: float = 0.0,
    sqrt_slope_limit: float = 0.0,
    layout: Layout = "btc",
    axis: int | None = None,
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> dict[str, Any]:
    """The gradients of ``gated_scan``.

    Args:
        states: what ``gated_scan`` returned: its output where the epilogue is "none", else its reserve.
        grad_output: the gradient of the output, of its shape and dtype.
        grad_final_state: the gradient of the final state; zeros if not given.

    The others are as ``gated_scan`` was given them.

    Returns:
        Gradients by the names of arguments: "gate", "input", "initial_state", "second_gate", "input_gate",
        "output_gate", "param", "bias", in their shapes and dtypes; None for what was not given but for the state.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    options = (layer, decay, scale, activation, epilogue, first_step, decay_rate, sqrt_slope_limit, layout, reverse, threads)
    extra = (second_gate, input_gate, output_gate, param, bias)
    arrays = (gate, input, states, grad_output, initial_state, grad_final_state, *extra, seq_offsets, reset)
    results = backward(arrays, options) if axis is None else _along(backward, arrays, options, axis)
    return named_gradients(results, extra)
