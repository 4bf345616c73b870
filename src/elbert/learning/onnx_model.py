"""A policy as an ONNX model: it acts without JAX, and is compared with the original before it is written.

    observation [batch, ...], noise [batch, n]  ->  action [batch, ...], and the distribution it was drawn from

The graph has no randomness of its own. Whoever serves it draws the noise, and can keep it to repeat a decision.
"""

import json
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import jax
import numpy as np

from elbert.errors import ElbertError
from elbert.files import as_path, write_whole
from elbert.learning.distributions import Categorical, Gaussian
from elbert.learning.networks import LARGEST_OBSERVATION, Network
from elbert.learning.policy import act, numbers_from
from elbert.shown import named

if TYPE_CHECKING:
    from elbert.learning.agent import Agent

FloatArray: TypeAlias = np.ndarray[Any, np.dtype[np.floating[Any]]]

OPSET, IR_VERSION = 17, 8  # of 2022: onnxruntime reads them from 1.12 on
OPERATORS = {"tanh": "Tanh", "relu": "Relu"}  # of the activations, by the names that settings have for them
OBSERVATIONS = 1000  # on which a model is compared with the policy
TOLERANCE = 1e-4  # of a probability, or of a real number in units of max(1, its size): float32 rounds to less
NOISE = {Categorical: "uniform in [0, 1), for each choice", Gaussian: "standard normal, for each number of the action"}
CAUTION = (
    "Any bias or limit that was reported for this policy was measured in a simulator, with actions drawn as this model "
    "draws them. The file holds neither the simulator nor the result. Other people, noise of another kind, or the most "
    "probable action in place of the drawn one can have another bias: audit the decisions that are made."
)


class Value(NamedTuple):
    """An input or an output of the model."""

    name: str
    type: str  # float32 or int32
    shape: tuple[int | str, ...]  # "batch" in front: any number of rows
    meaning: str


@dataclass(frozen=True)
class Exported:
    """What was written, and how it compares with the policy."""

    path: Path
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    observations: int  # random ones, on which both acted with the same noise
    largest_difference: float  # of a probability, or of a mean or deviation in units of max(1, its size)
    other_actions: int  # that differ because the noise lies within the tolerance of a boundary

    @property
    def comparison(self) -> str:
        """One sentence."""
        but = "" if not self.other_actions else f" but for {self.other_actions} whose noise lies on a boundary"
        what = "a probability" if self.outputs[1].name == "probabilities" else "mean and deviation"
        return (
            f"{self.observations} random observations: the same actions{but}; largest difference of {what} "
            f"{self.largest_difference:.0e}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        sides = {"inputs": self.inputs, "outputs": self.outputs}
        values = {side: [each._asdict() | {"shape": list(each.shape)} for each in sides[side]] for side in sides}
        return asdict(self) | {"path": str(self.path)} | values

    def __str__(self) -> str:
        """What was compared, and what goes in and out."""
        return str(named("elbert.report.pages:export_page")(self))


def export(agent: "Agent", path: str | Path) -> Exported:
    """Write the agent's policy as an ONNX model, if that acts like the policy; else refuse and write nothing."""
    path = as_path(path)
    path = path if path.suffix == ".onnx" else path.with_name(path.name + ".onnx")
    if agent.shape.parts is not None:
        raise ElbertError(
            'The policy scores parts with shared weights (policy = "parts"), for which there is no ONNX model yet. '
            'Serve it with agent.predict, or train one with policy = "mlp".'
        )
    if agent.settings.memory or agent.shape.carried:
        raise ElbertError(
            'The policy remembers what it observed (the setting `memory`, or policy = "gru"), for which there is no '
            'ONNX model yet. Serve it with agent.predict, or train one with policy = "mlp" and without memory.'
        )
    try:
        onnx, runtime = import_module("onnx"), import_module("onnxruntime")
    except ImportError as error:
        raise ElbertError(
            f"An ONNX model needs the packages onnx and onnxruntime ({error}). Install them: "
            "pip install 'elbert[onnx]'."
        ) from error
    inputs, outputs = signature(agent)
    content = model_bytes(agent, onnx)
    difference, others = _compared(agent, content, runtime)
    write_whole(path, content)
    return Exported(path, inputs, outputs, OBSERVATIONS, difference, others)


def signature(agent: "Agent") -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Inputs and outputs."""
    d = agent.shape.actions
    observed = agent.about.observation_shape or (agent.shape.observation,)
    seen = "as the environment gives it" + ("" if agent.about.observation_shape else ", flattened")
    inputs = Value("observation", "float32", ("batch", *observed), seen), _noise(agent)
    if isinstance(d, Categorical):
        meaning = "of each alternative" + (", one choice after the other" if d.shape else "")
        described = (Value("probabilities", "float32", ("batch", d.size), meaning),)
    else:
        meaning = "of the action, before it is clipped"
        described = tuple(Value(each, "float32", ("batch", *d.shape), meaning) for each in ("mean", "deviation"))
    kind = "int32" if isinstance(d, Categorical) else "float32"
    return inputs, (Value("action", kind, ("batch", *d.shape), "as the environment takes it"), *described)


def _noise(agent: "Agent") -> Value:
    d = agent.shape.actions
    size = len(d.sizes) if isinstance(d, Categorical) else d.size
    return Value("noise", "float32", ("batch", size), NOISE[type(d)])


def model_bytes(agent: "Agent", onnx: Any) -> bytes:
    """The model as a file holds it: the same bytes for the same agent."""
    graph, d, helper = Graph(onnx), agent.shape.actions, onnx.helper
    numbers = _numbers(graph, agent)
    if isinstance(d, Categorical):
        _choose(graph, numbers, d)
    else:
        assert isinstance(d, Gaussian)  # what policies by parts draw from is refused above
        _draw(graph, numbers, d, np.exp(np.asarray(agent.policy.weights.log_std)))

    def info(value: Value) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.type))
        return helper.make_tensor_value_info(value.name, kind, value.shape, value.meaning)

    inputs, outputs = ([info(value) for value in values] for values in signature(agent))
    model = helper.make_model(
        helper.make_graph(graph.nodes, "policy", inputs, outputs, graph.constants),
        producer_name="elbert",
        producer_version=version("elbert"),
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    helper.set_model_props(model, _metadata(agent))
    return model.SerializeToString(deterministic=True)


def _metadata(agent: "Agent") -> dict[str, str]:
    """Where the model comes from and what it needs, as text; what is not known is left out."""
    about = agent.about
    entries = {
        "env": about.env,
        "method": about.method,
        "seed": about.seed,
        "max_bias": about.max_bias,
        "group_names": about.group_names and json.dumps(about.group_names),
        "notion": about.notion,
        "elbert_version": version("elbert"),
        "agent_checksum": agent.checksum(),
        "noise": _noise(agent).meaning,
        "choices": json.dumps(d.sizes) if isinstance(d := agent.shape.actions, Categorical) else None,
        "caution": CAUTION,
    }
    texts = {name: str(value) for name, value in entries.items() if value is not None}
    return {name: text.encode("utf-8", "backslashreplace").decode() for name, text in texts.items()}


class Graph:
    """The nodes and constants of a model in the making. Every value has a name."""

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.nodes, self.constants = onnx, list[Any](), list[Any]()

    def constant(self, values: Any, dtype: type[np.generic] = np.int64) -> str:
        """The name of an array."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """The name of what an operator makes of these values."""
        name = name or f"value_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def columns(self, rows: str, first: int, end: int) -> str:
        """Some columns of a matrix."""
        return self.add("Slice", rows, *(self.constant([number]) for number in (first, end, 1)))

    def shaped(self, rows: str, shape: tuple[int, ...], name: str = "") -> str:
        """Every row in this shape."""
        return self.add("Reshape", rows, self.constant([0, *shape]), name=name)  # 0 keeps the batch as it is


def _numbers(graph: Graph, agent: "Agent") -> str:
    """`Model.normalised` and the actor network. -> [batch, numbers]"""
    (weights, moments), x = agent.policy, graph.shaped("observation", (agent.shape.observation,))
    if agent.settings.normalise_observations:
        seen = slice(agent.shape.observation)  # what the critic sees of the state comes behind it
        x = graph.add("Sub", x, graph.constant(moments.mean[seen], np.float32))
        x = graph.add("Mul", x, graph.constant(moments.factors()[seen], np.float32))
        ends = (graph.constant(end, np.float32) for end in (-LARGEST_OBSERVATION, LARGEST_OBSERVATION))
        x = graph.add("Clip", x, *ends)
    actor = weights.actor
    assert isinstance(actor, Network)
    for place, layer in enumerate(actor.layers):
        x = graph.add(OPERATORS[actor.activation], x) if place else x
        x = graph.add("Gemm", x, *(graph.constant(part, np.float32) for part in (layer.weight, layer.bias)), transB=1)
    return x


def _choose(graph: Graph, numbers: str, d: Categorical) -> None:
    """`Categorical.sample` and `to_env`: the first alternative whose cumulated probability exceeds the noise."""
    probabilities, choices, along = [], [], graph.constant(1)
    for place, (size, end) in enumerate(zip(d.sizes, np.cumsum(d.sizes), strict=True)):
        probabilities.append(graph.add("Softmax", graph.columns(numbers, end - size, end), axis=1))
        upto = graph.add("CumSum", probabilities[-1], along)
        level = graph.add("Mul", graph.columns("noise", place, place + 1), graph.columns(upto, size - 1, size))
        passed = graph.add("LessOrEqual", graph.columns(upto, 0, size - 1), level)
        passed = graph.add("Cast", passed, to=graph.onnx.TensorProto.INT32)
        choices.append(graph.add("ReduceSum", passed, graph.constant([1])))
    moved = graph.add("Add", graph.add("Concat", *choices, axis=1), graph.constant(d.starts, np.int32))
    graph.shaped(moved, d.shape, name="action")
    graph.add("Concat", *probabilities, axis=1, name="probabilities")


def _draw(graph: Graph, mean: str, d: Gaussian, deviation: FloatArray) -> None:
    """`Gaussian.sample` and `to_env`: mean + deviation * noise, clipped."""
    spread = graph.add("Expand", graph.constant(deviation[None], np.float32), graph.add("Shape", mean))
    action = graph.add("Add", mean, graph.add("Mul", spread, "noise"))
    action = graph.add("Max", action, graph.constant(d.low, np.float32))
    action = graph.add("Min", action, graph.constant(d.high, np.float32))
    for value, name in ((action, "action"), (mean, "mean"), (spread, "deviation")):
        graph.shaped(value, d.shape, name=name)


def _compared(agent: "Agent", content: bytes, runtime: Any) -> tuple[float, int]:
    """The largest difference between model and policy, and how many actions differ within the tolerance."""
    d, size, moments = agent.shape.actions, agent.shape.observation, agent.policy.moments
    rng, rows = np.random.default_rng(0), (OBSERVATIONS, size)
    far = np.where(np.arange(OBSERVATIONS)[:, None] % 10, 1.0, 30.0)  # a tenth lies where observations are clipped
    mean, factors = np.asarray(moments.mean)[:size], np.asarray(moments.factors())[:size]
    around = mean + far * rng.standard_normal(rows) / factors
    observations, noise = around.astype(np.float32), np.asarray(d.noise(jax.random.key(0), (OBSERVATIONS,)))
    with jax.default_matmul_precision("highest"):  # accelerators would round
        drawn, *_ = jax.jit(act, static_argnums=0)(agent.model, agent.policy, observations, noise)
        described = d.described(numbers_from(agent.model, agent.policy, observations))
    expected = [np.asarray(part, np.float64) for part in described]
    expected = [np.concatenate(expected, axis=1)] if isinstance(d, Categorical) else expected

    action, *outputs = _outputs(content, runtime, observations, noise)
    action_there = np.asarray(d.to_env(np.asarray(drawn)))
    pairs = zip(outputs, expected, strict=True)
    difference = max(float(np.max(_apart(output, numbers))) for output, numbers in pairs)
    if (action.shape, action.dtype) != (action_there.shape, action_there.dtype):
        wrong = others = np.ones(1, bool)
    elif isinstance(d, Categorical):
        others = (action != action_there).reshape(OBSERVATIONS, -1)
        wrong = others & ~_near(action.reshape(OBSERVATIONS, -1) - d.starts, noise, described)
    else:
        wrong, others = ~(_apart(action, action_there) <= TOLERANCE), np.zeros(1, bool)  # NaN is wrong too
    if wrong.any() or not difference <= TOLERANCE:
        raise ElbertError(
            f"The ONNX model does not act like the policy: on {OBSERVATIONS} random observations {int(wrong.sum())} "
            f"actions are others, and its distribution differs by up to {difference:.0e} ({TOLERANCE:.0e} is allowed). "
            f"Nothing was written. Try other versions of onnx and onnxruntime ({runtime.__version__} here)."
        )
    return difference, int(others.sum())


def _outputs(content: bytes, runtime: Any, observations: FloatArray, noise: FloatArray) -> list[Any]:
    """What the model makes of observations and noise, on one thread."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        shaped = observations.reshape(-1, *session.get_inputs()[0].shape[1:])
        return session.run([value.name for value in session.get_outputs()], {"observation": shaped, "noise": noise})
    except Exception as error:  # of many kinds, which share no base
        raise ElbertError(
            f"onnxruntime {runtime.__version__} cannot run the model ({error}). Nothing was written. Install another "
            "version: pip install 'elbert[onnx]' takes one that fits."
        ) from error


def _apart(values: FloatArray, expected: FloatArray) -> FloatArray:
    """The difference, in units of the size of what is expected where that exceeds 1."""
    return np.abs(values - expected) / np.maximum(1.0, np.abs(expected))


def _near(choices: Any, noise: FloatArray, described: Any) -> Any:
    """Whether the noise lies where each choice is drawn, give or take the tolerance. [N, choices]"""
    near = np.zeros(choices.shape, bool)
    for place, part in enumerate(described):
        ends = np.pad(np.cumsum(np.asarray(part, np.float64), axis=1), ((0, 0), (1, 0)))
        choice, level = choices[:, place], noise[:, place]
        known = np.clip(choice, 0, part.shape[1] - 1)
        low, high = (np.take_along_axis(ends, known[:, None] + side, axis=1)[:, 0] for side in (0, 1))
        near[:, place] = (known == choice) & (low - TOLERANCE <= level) & (level <= high + TOLERANCE)
    return near
