"""Users' environments, which Gymnasium steps on the host; and any environment, for policies that are not compiled."""

import itertools
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeAlias

import gymnasium
import jax
import numpy as np

from elbert.envs.gym_infos import VectorStep, VectorSteps
from elbert.envs.gym_names import parts_of
from elbert.envs.memory import parts_remembered, remembered
from elbert.errors import InvalidInputError
from elbert.learning.distributions import Distribution, distribution_for
from elbert.learning.networks import Model, Shape
from elbert.learning.policy import Policy, act
from elbert.learning.ppo import Learner, TrainState
from elbert.learning.rollouts import Rollout, Running
from elbert.learning.simulators.base import Environment, Episodes, Simulator
from elbert.progress import Progress, Tell

Act: TypeAlias = Callable[[Any, np.ndarray[Any, Any]], Any]
"""(observations as the environment gives them, which of them open an episode) -> actions as it takes them: [N, ...]"""

PolicyAct: TypeAlias = Callable[[Any, Any], tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Any]]
"""(what it acts on [N, n], noise [N, ...]) -> actions as sampled, [N, ...], their log p, [N], and what it carries on"""

NOISE_AHEAD = 128  # steps of an evaluation whose noise is drawn at once
LONGEST_EPISODE = 100_000  # steps after which an episode counts as one that never ends


class HostSimulator(Simulator):
    """A vector environment that Gymnasium steps on the host. A policy of ours is compiled; others act by themselves."""

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv[Any, Any, Any],
        name: str,
        source: Environment,
        memory: tuple[float, ...] = (),
    ) -> None:
        """Ask the environment for its groups and criteria by one step, which belongs to no episode that counts."""
        self.name, self.source, self.copies, self.env, self.memory = name, source, env.num_envs, env, memory
        space = env.single_observation_space
        self.observation_shape = tuple(space.shape) if isinstance(space, gymnasium.spaces.Box) else None
        self._steps = VectorSteps(env)
        self._observations: Any = None  # [N, observation] before the next step; None before the first episode
        self._carried: Any = None  # [N, n] that the policy carries along; None where it carries nothing
        actions = distribution_for(env.single_action_space)
        size, names, groups = self._steps.probe()
        parts = parts_remembered(parts_of(env), size, memory)
        self.shape = Shape(size * (1 + len(memory)), actions, names.criteria, groups, parts)
        self.notion, self.group_names = names.notion, names.groups

    def start(self, key: jax.Array, copies: int, carried: int = 0) -> None:
        """The copies live in the environment: nothing is kept in the state of a training."""
        del key, copies, carried
        self.forget()

    def forget(self) -> None:
        """The next rollout begins with new episodes."""
        self._observations = None

    def collect(self, learner: Learner, states: TrainState, seed: int) -> tuple[TrainState, Rollout]:
        """Step by step on the host, for the only member."""
        if learner.settings.reset_each_rollout or self._observations is None:
            self._restart(seed, int(states.iteration[0]), carried=learner.model.shape.carried)
            fresh = Running.none(*states.running.supply.shape[1:])
            states = states._replace(running=jax.tree.map(lambda x: x[None], fresh))
        policy = jax.tree.map(lambda x: x[0], Policy(states.weights, states.gathered))
        keys = jax.random.split(jax.random.fold_in(states.key[0], 1), learner.settings.rollout)
        act = _acting(learner.model, policy)
        rows = [self._step(act, noise) for noise in _noise(learner.model.distribution, self._steps.copies, keys)]
        return states, Rollout(*(np.stack(columns)[None] for columns in zip(*rows, strict=True)))

    def play(
        self, model: Model, policy: Policy, episodes: int, seed: int, *, deterministic: bool, progress: Tell
    ) -> Episodes:
        """Compiled actions, from the seed's key and the time."""
        key, act = jax.random.key(seed), _acting(model, policy, deterministic=deterministic)
        times = (np.arange(first, first + NOISE_AHEAD) for first in itertools.count(0, NOISE_AHEAD))
        rows = (_noise(model.distribution, self._steps.copies, _keys(key, some)) for some in times)
        noise = itertools.chain.from_iterable(rows)
        carried = model.shape.carried
        return self._episodes(lambda _: self._step(act, next(noise)), episodes, seed, progress, carried)

    def play_with(self, act: Act, episodes: int, seed: int, *, progress: Tell) -> Episodes:
        """The same for a function from observations to actions, which need not be compiled."""
        return self._episodes(
            lambda _: self._steps.step(act(self._steps.observations, self._steps.starts)), episodes, seed, progress
        )

    def _episodes(
        self,
        make_step: Callable[[int], Rollout | VectorStep],
        episodes: int,
        seed: int,
        progress: Tell,
        carried: int = 0,
    ) -> Episodes:
        """Every copy plays the same number of episodes, so that short ones are not preferred."""
        self._restart(seed, carried=carried)
        count, time = self._steps.copies, 0
        rounds = -(-episodes // count)
        amounts = (rounds, count, *self.shape.benefits)
        sums = Episodes(*(np.zeros(shape) for shape in (amounts[:2], amounts[:2], amounts, amounts)))
        done = np.zeros(count, int)  # episodes of each copy
        while (done < rounds).any():
            step = make_step(time)
            time += 1
            live = np.flatnonzero((done < rounds) & step.counted)
            for total, x in zip(sums, (step.reward, np.ones(count), step.supply, step.demand), strict=True):
                total[done[live], live] += x[live]
            longest = int(sums.length.max())
            if longest >= LONGEST_EPISODE:
                raise InvalidInputError(
                    f"An episode of {self.name} has not ended after {longest:,} steps. A policy is judged by whole "
                    "episodes: let them end, or wrap the environment in gymnasium.wrappers.TimeLimit."
                )
            over = step.ended & (done < rounds)
            done += over
            if over.any():
                progress(Progress("evaluating", min(episodes, int(done.sum())), episodes, "episodes"))
        self.forget()
        # round by round, so that leaving out the surplus leaves out the last round's
        return Episodes(*(total.reshape(-1, *total.shape[2:])[:episodes] for total in sums))

    def _restart(self, *seed: int, carried: int = 0) -> None:
        """New episodes, with nothing in memory.

        The seed is hashed: Gymnasium gives copy i the seed + i, and neighbours would share them.
        """
        words = np.random.SeedSequence(seed).generate_state(1)
        self._observations = remembered(self._steps.reset(int(words[0] // 2)), self.memory)
        self._carried = np.zeros((self._steps.copies, carried), np.float32) if carried else None

    def _step(self, act: PolicyAct, noise: np.ndarray[Any, Any]) -> Rollout:
        """One step of every copy under the policy. [N, ...] each"""
        before, memory = self._observations, self._carried
        row = before if memory is None else np.concatenate([before, memory], axis=1)
        action, log_prob, carried = act(row, noise)
        step = self._steps.step(self.shape.actions.to_env(action))
        final, self._observations = self._recalled(step, before)
        if memory is not None:
            final = np.concatenate([final, carried], axis=1)
            self._carried = np.where(self._steps.starts[:, None], np.float32(0), carried)
        return Rollout.of(
            step,
            observation=row,
            next_observation=final,
            action=action,
            log_prob=log_prob,
            counted=step.counted,
        )

    def _recalled(self, step: VectorStep, before: Any) -> tuple[Any, Any]:
        """What is observed after a step, before and after any reset, with averages if there is memory. [N, ...] each"""
        if not self.memory:
            return step.final_observation, step.next_observation
        final = remembered(step.final_observation, self.memory, before)
        going = remembered(step.next_observation, self.memory, before)
        fresh = remembered(step.next_observation, self.memory)
        return final, np.where(self._steps.starts[:, None], fresh, going)


def _acting(model: Model, policy: Policy, *, deterministic: bool = False) -> PolicyAct:
    """The policy as a function that is quick to call: its arrays leave their tree once, not in every step."""
    leaves, structure = jax.tree.flatten(policy)
    compiled = _compiled_act(model, structure, deterministic)

    def acted(observations: Any, noise: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Any]:
        action, log_prob, carried = compiled(leaves, observations, noise)
        return np.asarray(action), np.asarray(log_prob), carried

    return acted


@lru_cache(maxsize=64)
def _compiled_act(model: Model, structure: Any, deterministic: bool) -> Callable[..., Any]:
    """`act` for policies of this structure. Models that compute the same share it."""
    return jax.jit(
        lambda leaves, observations, noise: act(
            model, jax.tree.unflatten(structure, leaves), observations, noise, deterministic=deterministic
        )
    )


def _noise(distribution: Distribution, copies: int, keys: jax.Array) -> np.ndarray[Any, Any]:
    """The noise of a step from each key, drawn by one call. -> [keys, copies, ...]"""
    return np.asarray(_drawn(distribution, copies, keys))


@partial(jax.jit, static_argnums=(0, 1))
def _drawn(distribution: Distribution, copies: int, keys: jax.Array) -> jax.Array:
    return jax.vmap(lambda key: distribution.noise(key, (copies,)))(keys)


@jax.jit
def _keys(key: jax.Array, times: jax.Array) -> jax.Array:
    return jax.vmap(lambda time: jax.random.fold_in(key, time))(times)
