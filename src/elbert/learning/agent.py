"""A trained policy: it acts, is saved and loaded without running code, and is evaluated."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import gymnasium
import jax
import numpy as np

from elbert.checks import as_seed
from elbert.envs.memory import remembered
from elbert.envs.parts import Parts
from elbert.errors import InvalidInputError
from elbert.files import FileError, read_tensors, tensors_checksum, write_tensors
from elbert.learning.distributions import Categorical, Gaussian
from elbert.learning.estimates import split_signals
from elbert.learning.evaluation import Evaluable
from elbert.learning.history import History
from elbert.learning.networks import Model, Moments, Scale, Shape
from elbert.learning.part_actions import part_actions
from elbert.learning.policy import Policy, act_from_key, numbers_from, values_from
from elbert.learning.schedules import as_stored
from elbert.learning.settings import Settings
from elbert.learning.simulators import Environment, Episodes, Simulator, open_simulator
from elbert.learning.subsets import Subset
from elbert.learning.trees import MismatchError, from_arrays, to_arrays
from elbert.shown import Shown

if TYPE_CHECKING:
    from elbert.learning.onnx_model import Exported

FORMAT = 2  # of agent files; format 1 was that of elbert 0.1.0
GONE = ("price", "length")  # entries of `About` in files that were written before they were taken out
NOT_GIVEN: Any = object()
DISTRIBUTIONS: dict[str, Any] = {"Categorical": Categorical, "Gaussian": Gaussian, "Subset": Subset}  # as in files
PARTS = "parts/"  # before the names of the arrays that hold the parts of the problem


@dataclasses.dataclass(frozen=True)
class About:
    """Where an agent comes from."""

    env: str
    parameters: dict[str, Any] | None  # of the named world; None for an environment of the user's own
    method: str
    seed: int
    steps: int
    train_seconds: float
    observation_shape: tuple[int, ...] | None  # of a Box; None for other spaces, whose observations come flattened
    method_settings: dict[str, Any] = dataclasses.field(default_factory=dict)  # ready for JSON
    max_bias: float | None = None  # the limit it was trained for
    group_names: tuple[str, ...] | None = None  # None: groups are numbered
    notion: str | None = None  # what supply and demand mean, where that is known


@dataclasses.dataclass(eq=False, repr=False)
class Agent(Evaluable, Shown):
    """A policy with the networks behind it, made by `elbert.train` and `elbert.load`."""

    drawn_by: ClassVar[str] = "elbert.report.plots:plot_agent"
    page_by: ClassVar[str] = "elbert.report.plots:agent_page"

    about: About
    settings: Settings
    shape: Shape
    policy: Policy
    scale: Scale
    env: Environment | None = None  # where it was trained, as far as that is at hand
    recorded: History | Callable[[], History] | None = None  # its training, or what reads it; None if neither is there

    def __post_init__(self) -> None:
        self.model = Model(self.settings, self.shape)
        self.seed(self.about.seed)

    def __repr__(self) -> str:
        a = self.about
        numbers = [(name, x) for name, x in a.method_settings.items() if isinstance(x, float) or name == "max_bias"]
        own = "".join(f", {name}={value:g}" for name, value in numbers if value is not None)
        return f"Agent({a.method} on {a.env}{own}, seed {a.seed}, {a.steps:,} steps, {a.train_seconds:.1f} s)"

    @property
    def home(self) -> tuple[Environment | None, dict[str, Any] | None]:
        """The environment of training: a named world with its parameters, or one of the user's if it is at hand."""
        about = self.about
        if about.parameters is not None:
            return about.env, dict(about.parameters)
        if self.env is not None and not getattr(self.env, "closed", False):
            return self.env, None
        # one that Gymnasium knows can be made again; "module:Id" would run a module that a file names
        return (about.env if about.env in gymnasium.registry else None), None

    @property
    def weights(self) -> Any:
        """What was learned by gradients."""
        return self.policy.weights

    @property
    def history(self) -> History:
        """What every iteration of its training showed: `history["reward"]`, `.plot()`, `.to_pandas()`, ..."""
        if self.recorded is None:
            raise InvalidInputError(
                "This agent has no history: it was read from a file of its own. Agents have one that come from "
                "elbert.train, or from the folder of a run: elbert.load(FOLDER)."
            )
        return self.recorded() if callable(self.recorded) else self.recorded

    def predict(
        self,
        observation: Any,
        *,
        state: Any = NOT_GIVEN,
        episode_start: Any = NOT_GIVEN,
        deterministic: bool = False,
    ) -> Any:
        """The action for an observation, or actions for a batch of them (the copies in front).

        Args:
            observation: as the environment gives it; flattened if its space is not a Box.
            state: as stable-baselines3 calls it, for example in `evaluate_policy`: what the last call returned, None
                at first. Whoever gives `state` or `episode_start` is returned (action, state). An agent with memory
                (the setting `memory`, or policy = "gru") needs it; for all others it is None.
            episode_start: which of the observations open an episode, so that nothing before them is remembered.
            deterministic: whether to take the most probable action instead of a sampled one. The policy that was
                trained and evaluated samples: the most probable action can have quite another bias.
        """
        batch, lead = self._batch(observation)
        batch = self._seen(batch, state, episode_start)
        self._key, key = jax.random.split(self._key)
        action, _, carried = act_from_key(self.model, self.policy, batch, key, deterministic)
        actions = np.asarray(self.model.distribution.to_env(np.asarray(action)))
        actions = actions.reshape((*lead, *actions.shape[1:]))[()]
        averages = [batch[:, : self.shape.observation]] if self.settings.memory else []
        parts = [*averages, *([] if carried is None else [np.asarray(carried)])]
        after = np.concatenate(parts, axis=1) if parts else None
        return actions if state is NOT_GIVEN and episode_start is NOT_GIVEN else (actions, after)

    def action_probabilities(self, observation: Any, *, state: Any = NOT_GIVEN) -> Any:
        """How probable each action is, for an observation or a batch of them (the batch in front).

        An agent with memory needs the `state` of `predict`: what the call for the observations before these returned.

        One choice (Discrete): an array [..., actions] that adds up to 1. Several independent choices (MultiDiscrete,
        MultiBinary): a tuple of these, one for each. Several different parts, as a policy by parts draws them: how
        probable each is to be drawn first, [..., alternatives]. Real numbers (Box): a `Normal` with the `mean` and the
        `deviation` of each, [..., n], before they are clipped to the limits of the space.
        """
        batch, lead = self._batch(observation)
        batch = self._seen(batch, state)
        described = self.model.distribution.described(numbers_from(self.model, self.policy, batch))
        described = jax.tree.map(lambda x: np.asarray(x).reshape((*lead, *x.shape[1:])), described)
        single = isinstance(described, tuple) and len(described) == 1 and self.shape.actions.shape == ()
        return described[0] if single else described

    def values(self, observation: Any, *, state: Any = NOT_GIVEN) -> "Values":
        """What the critic expects from here on, for an observation or a batch of them (the batch in front).

        These are discounted sums (by the setting `gamma`) of the reward and of each group's supply and demand. A critic
        that saw the simulator's state in training has none for observations. `state` as in `action_probabilities`.
        """
        if self.shape.state:
            raise InvalidInputError(
                "The critic of this agent saw the simulator's state in training, so it has no values for observations. "
                'Train with critic_sees="observation".'
            )
        batch, lead = self._batch(observation)
        signals = values_from(self.model, self.policy, self.scale, self._seen(batch, state)).reshape(*lead, -1)
        return Values(*(np.asarray(part) for part in split_signals(signals, *self.shape.benefits)))

    def _batch(self, observation: Any) -> tuple[Any, tuple[int, ...]]:
        """Observations as rows of numbers, and the axes in front of what is returned: () for a single one."""
        size = self.shape.observation // (1 + len(self.settings.memory))
        single = self.about.observation_shape or (size,)
        need = f"Give one of shape {single}, or a batch of them with the batch in front."
        try:
            observed = np.asarray(observation, np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"The observation is no array of numbers ({error}). {need}") from error
        if observed.shape not in (single, (*observed.shape[:1], *single)):
            raise InvalidInputError(f"The observation has shape {observed.shape}. {need}")
        if not np.isfinite(observed).all():
            raise InvalidInputError("The observation holds infinite numbers or NaN, on which no policy was trained.")
        return observed.reshape(-1, size), () if observed.shape == single else observed.shape[:1]

    def _seen(self, batch: Any, state: Any, episode_start: Any = NOT_GIVEN) -> Any:
        """What the networks see: the observations, with what is remembered of those before them. [N, ...]"""
        spans, carried = self.settings.memory, self.shape.carried
        if not spans and not carried:
            return batch
        averages = self.shape.observation if spans else 0
        rows = (len(batch), averages + carried)
        need = f"Give what the last call returned, an array of shape {rows}, or None at the start of episodes."
        if state is NOT_GIVEN:
            by = f"memory = {list(spans)}" if spans else 'policy = "gru"'
            raise InvalidInputError(
                f"This agent remembers what it observed ({by}), and state was not given. {need} action, state = "
                "agent.predict(observation, state=state)."
            )
        fresh = np.concatenate([remembered(batch, spans), np.zeros((len(batch), carried), np.float32)], axis=1)
        if state is None:
            return fresh
        try:
            before = np.asarray(state, np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"state is no array of numbers ({error}). {need}") from error
        if before.shape != rows:
            raise InvalidInputError(f"state has shape {before.shape}. {need}")
        opens = np.asarray(False if episode_start is NOT_GIVEN or episode_start is None else episode_start, bool)
        if opens.shape not in ((), rows[:1]):
            raise InvalidInputError(
                f"episode_start has shape {opens.shape}. Give one answer for each of the {len(batch)} observations, or "
                "one for all."
            )
        seen = remembered(batch, spans, before[:, :averages] if spans else None)
        return np.where(opens.reshape(-1, 1), fresh, np.concatenate([seen, before[:, averages:]], axis=1))

    def seed(self, seed: int) -> None:
        """Start the randomness of `predict` again from this seed."""
        self._key = jax.random.key(as_seed(seed))

    def _play(
        self, env: Environment | None, parameters: dict[str, Any], **options: Any
    ) -> tuple[Episodes, dict[str, Any]]:
        where, parameters = self.placed_in(env, parameters)
        s = self.settings
        with open_simulator(where, s.copies, parameters, memory=s.memory) as simulator:
            shape, fitted = simulator.shape, self.fitted(simulator)
            sums = simulator.play(fitted.model, fitted.policy, **options)
        about = self.about
        names = (about.group_names, simulator.group_names)[:: 1 if env is None else -1]  # those of where it acts first
        return sums, {
            "env": about.env if env is None else simulator.name,
            "method": about.method,
            "criteria": shape.criteria,
            "groups": next((each for each in names if each is not None and len(each) == shape.groups), None),
            "notion": simulator.notion,
            "train_seconds": about.train_seconds,
            "max_bias": about.max_bias,
        }

    def fitted(self, simulator: Simulator) -> "Agent":
        """The agent as it acts in an environment, which is refused if it has other sizes than that of training.

        A policy by parts scores whatever parts the environment declares, however many: what has to be the same is
        what is known and observed of each of them. Where none are declared, it keeps those of training.
        """
        shape, own = simulator.shape, self.shape
        actions = shape.actions
        if own.parts is not None and shape.parts is not None:
            return self._among(shape.seen_by(self.settings), simulator)
        if own.parts is not None:
            fitted = part_actions(own.parts, actions)
            actions = actions if fitted is None else fitted.distribution
        if (shape.observation, actions) != (own.observation, own.actions):
            raise InvalidInputError(
                f"The agent was trained with {own.observation} numbers observed and actions {own.actions}; "
                f"{simulator.name} has {shape.observation} and {shape.actions}."
            )
        return self

    def _among(self, there: Shape, simulator: Simulator) -> "Agent":
        """The same weights for the parts of another problem."""
        own = self.shape
        if (there.observation, there.actions, there.parts) == (own.observation, own.actions, own.parts):
            return self
        assert own.parts is not None
        assert there.parts is not None
        apart = own.parts.unlike(own.observation, there.parts, there.observation)
        mine, theirs = part_actions(own.parts, own.actions), part_actions(there.parts, there.actions)
        if mine is None or theirs is None or not mine.like(theirs):
            apart = apart or "what actions hold of each part"
        if apart:
            raise InvalidInputError(
                f"The agent scores parts, and those of {simulator.name} are not like those that it was trained with: "
                f"{apart}. There may be more or fewer of them, with the same numbers of each."
            )
        moments = self.policy.moments.for_parts(own.parts, there.parts, there.observation)
        about = dataclasses.replace(self.about, observation_shape=simulator.observation_shape)
        return dataclasses.replace(self, about=about, shape=there, policy=self.policy._replace(moments=moments))

    def placed_in(self, env: Environment | None, parameters: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Where the agent acts, and the world's parameters: what is given, over what it was trained in."""
        where, own = (env, None) if env is not None else self.home
        if where is not None:
            return where, (own or {}) | parameters
        raise InvalidInputError(
            f"The agent was trained on {self.about.env}, an environment of your own that is not stored with it. Say "
            "where to evaluate it: agent.evaluate(env=...), or --env file.py:function on the command line. A "
            "Gymnasium id is found again once the package that registers it is imported."
        )

    def replaced(self, *, env: Environment | None = None, train_seconds: float | None = None) -> "Agent":
        """The same policy with another environment to be evaluated in, or another time of training."""
        seconds = self.about.train_seconds if train_seconds is None else train_seconds
        about = dataclasses.replace(self.about, train_seconds=seconds)
        return dataclasses.replace(self, about=about, env=self.env if env is None else env)

    def save(self, path: str | Path) -> Path:
        """Write everything that `elbert.load` needs into one file that holds arrays and text and no code."""
        path = Path(path)
        path = path if path.suffix == ".safetensors" else path.with_name(path.name + ".safetensors")
        write_tensors(path, *self._content())
        return path

    def checksum(self) -> str:
        """A digest of all that `save` writes. The file carries it, and so does an exported model."""
        return tensors_checksum(*self._content())

    def to_onnx(self, path: str | Path) -> "Exported":
        """Write the policy as an ONNX model, which acts without JAX. It needs `pip install 'elbert[onnx]'`.

        The model takes observations and noise, which whoever serves it draws, and gives actions and the distribution
        that they were drawn from. It is compared with this agent first; one that acts otherwise is not written.
        """
        from elbert.learning.onnx_model import export

        return export(self, path)

    def _content(self) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
        """All that makes up the agent: named arrays, and the rest as JSON can hold it."""
        parts = {} if self.shape.parts is None else self.shape.parts.arrays()
        return to_arrays((*self.policy, self.scale)) | {PARTS + name: array for name, array in parts.items()}, {
            "format": FORMAT,
            "about": dataclasses.asdict(self.about),
            "settings": self.settings.to_dict(),
            "shape": _shape_to_dict(self.shape),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the arrays and the text of its file, so that it can be sent to other processes.

        Its environment goes along if it is a name or a function that can be imported; one that was made stays behind.
        """
        importable = isinstance(self.env, str) or "<" not in getattr(self.env, "__qualname__", "<")
        key = np.asarray(jax.random.key_data(self._key))
        return _unpickled, (*self._content(), self.env if importable else None, key, self.recorded)

    @classmethod
    def load(cls, path: str | Path) -> "Agent":
        """The agent from a file; a damaged one is refused by name. Loading runs no code from the file."""
        path = Path(path)
        arrays, content = read_tensors(path)
        try:
            if content["format"] != FORMAT:
                raise FileError(f"{path} has format {content['format']}; this version of elbert reads format {FORMAT}.")
            return _agent_from(arrays, content)
        except (KeyError, TypeError, MismatchError, InvalidInputError) as error:
            raise FileError(f"{path} is not an agent that this version of elbert can read: {error}.") from error


class Values(NamedTuple):
    """What a critic expects from an observation on: discounted sums."""

    reward: np.ndarray[Any, Any]  # [...]
    supply: np.ndarray[Any, Any]  # [..., criteria, groups]
    demand: np.ndarray[Any, Any]  # [..., criteria, groups]


def _agent_from(arrays: Mapping[str, np.ndarray[Any, Any]], content: Mapping[str, Any]) -> Agent:
    """The agent of which these are the contents."""
    about = {name: value for name, value in _with_tuples(content["about"]).items() if name not in GONE}
    held = {name.removeprefix(PARTS): array for name, array in arrays.items() if name.startswith(PARTS)}
    arrays = {name: array for name, array in arrays.items() if not name.startswith(PARTS)}
    parts = Parts.from_arrays(held) if held else None
    settings, shape = Settings.of(as_stored(content["settings"])), _shape_from_dict(content["shape"], parts)
    weights = jax.eval_shape(Model(settings, shape).init, jax.random.key(0))
    template = weights, Moments.unseen(shape.seen), Scale.unit(shape.signals)
    weights, moments, scale = from_arrays(template, arrays)
    return Agent(About(**about), settings, shape, Policy(weights, moments), scale)


def _unpickled(
    arrays: dict[str, np.ndarray[Any, Any]], content: dict[str, Any], env: Environment | None, key: Any, recorded: Any
) -> Agent:
    agent = dataclasses.replace(_agent_from(arrays, content), env=env, recorded=recorded)
    agent._key = jax.random.wrap_key_data(key)
    return agent


def _shape_to_dict(shape: Shape) -> dict[str, Any]:
    """Ready for JSON, which knows no infinity: None stands for it in the limits of an action. Parts are arrays."""
    content = dataclasses.asdict(dataclasses.replace(shape, parts=None))
    del content["parts"]
    actions = {"kind": type(shape.actions).__name__} | content["actions"]
    for name in {"low", "high"} & set(actions):
        actions[name] = [end if np.isfinite(end) else None for end in actions[name]]
    return content | {"actions": actions}


def _shape_from_dict(content: dict[str, Any], parts: Parts | None) -> Shape:
    actions = dict(content["actions"])
    kind = DISTRIBUTIONS[actions.pop("kind")]
    for name, unlimited in (("low", -np.inf), ("high", np.inf)):
        if name in actions:
            actions[name] = [unlimited if end is None else end for end in actions[name]]
    return Shape(**_with_tuples(content | {"actions": kind(**_with_tuples(actions))}), parts=parts)


def _with_tuples(content: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
