"""Compiled worlds: many copies, many steps, many members in one program."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs import World
from elbert.envs.memory import Remembering
from elbert.fairness.episode_totals import as_names
from elbert.learning.distributions import distribution_for
from elbert.learning.networks import Model, Shape
from elbert.learning.policy import Policy, act, act_from_key
from elbert.learning.ppo import Learner, TrainState
from elbert.learning.rollouts import Rollout, Running
from elbert.learning.simulators.base import Environment, Episodes, Simulator
from elbert.progress import Progress, Tell, tell_nobody

AT_ONCE = 1024  # episodes that are played side by side


class Copies(NamedTuple):
    """Where the copies of a world stand."""

    states: Any  # [N, ...] each leaf
    observations: jax.Array  # [N, ...] of the observation space
    carried: jax.Array | None = None  # [N, n] what a policy with a learned memory carries along; None for others

    @property
    def rows(self) -> jax.Array:
        """What a policy acts on.   [N, n]"""
        flat = self.observations.reshape(self.observations.shape[0], -1)
        return flat if self.carried is None else jnp.concatenate([flat, self.carried], axis=1)


class CompiledSimulator(Simulator):
    """A world: everything is compiled, members side by side. Worlds with the same numbers are compiled once."""

    pure = True

    def __init__(
        self,
        world: World,
        name: str,
        source: Environment,
        parameters: dict[str, Any] | None = None,
        memory: tuple[float, ...] = (),
    ) -> None:
        """The world, its name for people, what the user gave, and how far what is observed reaches back."""
        self.name, self.source, self.parameters, self.own_world = name, source, parameters, world
        self.notion = world.benefit
        self.horizon, self.observation_shape = int(world.horizon), tuple(world.observation_space.shape)
        if world.group_names is not None:
            self.group_names = as_names(world.group_names, world.groups, "group_names")
        self.world = world = Remembering(world, memory) if memory else world
        self.shape = Shape(
            observation=int(np.prod(world.observation_space.shape)),
            actions=distribution_for(world.action_space),
            criteria=tuple(criterion.name for criterion in world.benefit.criteria),
            groups=world.groups,
            parts=world.parts,
            state=_state_size(world),
        )
        self.knows_means = _knows_means(world)
        leaves, structure = jax.tree.flatten(world)
        arrays = [np.asarray(leaf) for leaf in leaves]
        self._identity = structure, tuple((array.dtype.str, array.shape, array.tobytes()) for array in arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompiledSimulator) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity[1])

    def start(self, key: jax.Array, copies: int, carried: int = 0) -> Copies:
        """Copies at the start of their episodes. [N, ...] each"""
        return jax.block_until_ready(_start(self.world, key, copies, carried))

    def collect(self, learner: Learner, states: TrainState, seed: int) -> tuple[TrainState, Rollout]:
        """A scan over time, vmapped over members."""
        del seed
        world, settings = self.world, learner.settings

        def of_one(state: TrainState) -> tuple[TrainState, Rollout]:
            key, key_rollout, key_reset = jax.random.split(state.key, 3)
            if settings.reset_each_rollout:
                fresh = start(world, key_reset, settings.copies, learner.model.shape.carried)
                state = state._replace(copies=fresh, running=Running.none(*state.running.supply.shape))
            policy = Policy(state.weights, state.gathered)
            copies, rollout = collect(
                world,
                learner.model,
                policy,
                state.copies,
                key_rollout,
                settings.rollout,
                means=settings.signals == "means",
            )
            return state._replace(copies=copies, key=key), rollout

        return jax.vmap(of_one)(states)

    def play(
        self, model: Model, policy: Policy, episodes: int, seed: int, *, deterministic: bool, progress: Tell
    ) -> Episodes:
        """`AT_ONCE` episodes side by side."""
        play = partial(_play, self.world, model, policy, deterministic)
        return play_in_chunks(play, episodes=episodes, seed=seed, progress=progress)


def start(world: World, key: jax.Array, copies: int, carried: int = 0) -> Copies:
    """Copies of a world at the start of their episodes, with nothing in memory. [N, ...] each"""
    memory = jnp.zeros((copies, carried), jnp.float32) if carried else None
    return Copies(*jax.vmap(world.reset)(jax.random.split(key, copies)), memory)


def collect(
    world: World, model: Model, policy: Policy, copies: Copies, key: jax.Array, steps: int, *, means: bool = False
) -> tuple[Copies, Rollout]:
    """Let every copy of a world make this many steps under the policy; an ended episode is followed by a new one.

    With `means`, reward, supply and demand are their means given state and action, computed for all steps at once. The
    randomness of all steps is drawn ahead. Both cost a fraction in one piece of what they cost step by step.
    """
    count = copies.observations.shape[0]
    key_actions, key_steps, key_resets = jax.random.split(key, 3)
    noise = model.distribution.noise(key_actions, (steps, count))
    keys = jax.random.split(key_steps, (steps, count))
    resets = jax.random.split(key_resets, steps)

    def seen(copies: Copies) -> jax.Array:
        shown = jax.vmap(world.for_critic)(copies.states) if model.shape.state else None
        return copies.rows if shown is None else jnp.concatenate([copies.rows, shown], axis=1)

    def step_all(copies: Copies, now: Any) -> tuple[Copies, tuple[Rollout, Any]]:
        noise_now, key_now, key_reset = now
        action, log_prob, carried = act(model, policy, copies.rows, noise_now)
        states, step = jax.vmap(world.step)(key_now, copies.states, model.distribution.to_env(action))
        ended, moved = step.terminated | step.truncated, Copies(states, step.observation, carried)

        def with_resets() -> Copies:
            fresh = start(world, key_reset, count, model.shape.carried)
            return jax.tree.map(lambda new, old: jnp.where(_rows(ended, new), new, old), fresh, moved)

        after = jax.lax.cond(_any_in_any_member(ended), with_resets, lambda: moved)
        shown = Rollout.of(
            step,
            observation=seen(copies),
            next_observation=seen(moved),
            action=action,
            log_prob=log_prob,
            counted=jnp.ones(count, bool),
        )
        return after, (shown, copies.states if means else None)

    copies, (rollout, states) = jax.lax.scan(step_all, copies, (noise, keys, resets))
    if means:
        actions = model.distribution.to_env(rollout.action)
        expected = jax.vmap(jax.vmap(world.means))(states, actions)
        assert expected is not None
        rollout = rollout._replace(**expected._asdict())
    return copies, rollout


def play(
    world: World, act: Callable[[jax.Array, Copies], tuple[Any, Any]], key: jax.Array, count: int, carried: int = 0
) -> Episodes:
    """Sums over `count` whole episodes side by side, for a function of (key, copies). Can be jitted.

    The function gives actions and what is carried along, which is as many numbers as `carried`; None for none.
    """
    key_start, key_course = jax.random.split(key)

    def going(carry: Any) -> jax.Array:
        return carry[2].any() & (carry[3] < world.horizon)

    def step_all(carry: Any) -> Any:
        copies, sums, alive, time = carry
        key_noise, key_steps = jax.random.split(jax.random.fold_in(key_course, time))
        keys = jax.random.split(key_steps, count)
        actions, memory = act(key_noise, copies)
        states, step = jax.vmap(world.step)(keys, copies.states, actions)
        now = Episodes(step.reward, jnp.ones(count), step.supply, step.demand)
        sums = jax.tree.map(lambda total, x: total + jnp.where(_rows(alive, x), x, 0.0), sums, now)
        return Copies(states, step.observation, memory), sums, alive & ~(step.terminated | step.truncated), time + 1

    none, each = jnp.zeros(count), jnp.zeros((count, len(world.benefit.criteria), world.groups))
    sums = Episodes(none, none, each, each)
    begin = (start(world, key_start, count, carried), sums, jnp.ones(count, bool), jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(going, step_all, begin)[1]


def play_in_chunks(
    play: Callable[[jax.Array, int], Episodes], *, episodes: int, seed: int, progress: Tell = tell_nobody
) -> Episodes:
    """Episodes from a function that plays a number of them from a key, `AT_ONCE` of them side by side."""
    chunks = -(-episodes // AT_ONCE)
    size = -(-episodes // chunks)
    played = []
    for i in range(chunks):
        key = jax.random.fold_in(jax.random.key(seed), i)
        played.append(jax.tree.map(np.asarray, play(key, size)))
        progress(Progress("evaluating", min(episodes, size * (i + 1)), episodes, "episodes"))
    return Episodes(*(np.concatenate(sums)[:episodes].astype(float) for sums in zip(*played, strict=True)))


def _rows(flags: jax.Array, like: jax.Array) -> jax.Array:
    """A flag for every row, with the axes of an array. [N], [N, ...] -> [N, 1, ...]"""
    return flags.reshape(-1, *(1,) * (like.ndim - 1))


def _knows_means(world: World) -> bool:
    """Whether a world says what a step brings on average."""
    action = jnp.asarray(world.action_space.sample())
    return jax.eval_shape(lambda key: world.means(world.reset(key)[0], action), jax.random.key(0)) is not None


def _state_size(world: World) -> int:
    """How many numbers of its state a world shows to a critic."""
    shown = jax.eval_shape(lambda key: world.for_critic(world.reset(key)[0]), jax.random.key(0))
    return 0 if shown is None else shown.shape[0]


_start = jax.jit(start, static_argnums=(2, 3))


@partial(jax.jit, static_argnums=(1, 3, 5))
def _play(world: World, model: Model, policy: Policy, deterministic: bool, key: jax.Array, count: int) -> Episodes:
    def acts(key: jax.Array, copies: Copies) -> tuple[jax.Array, jax.Array | None]:
        action, _, carried = act_from_key(model, policy, copies.rows, key, deterministic)
        return model.distribution.to_env(action), carried

    return play(world, acts, key, count, model.shape.carried)


@jax.custom_batching.custom_vmap
def _any_in_any_member(flags: jax.Array) -> jax.Array:
    """Whether any flag is set, in any of the members that are mapped over.

    Under vmap a plain `any` would differ from member to member, `cond` would become a choice between two results, and
    every step would pay for resets that hardly ever happen. Which copies are reset is decided by their own flags.
    """
    return flags.any()


@_any_in_any_member.def_vmap
def _any_in_all_members(axis_size: int, in_batched: Any, flags: jax.Array) -> tuple[jax.Array, bool]:
    del axis_size, in_batched
    return _any_in_any_member(flags), False
