"""Users' environments, which Gymnasium steps on the host; and any environment, for policies that are not compiled."""

from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import jax
import numpy as np

from elbert.envs.gym_infos import VectorStep, VectorSteps
from elbert.errors import InvalidInputError
from elbert.learning.distributions import distribution_for
from elbert.learning.networks import Model, Shape
from elbert.learning.policy import Policy, act_from_key
from elbert.learning.ppo import Learner, TrainState
from elbert.learning.rollouts import Rollout, Running
from elbert.learning.simulators.base import Environment, Episodes, Simulator
from elbert.progress import Progress, Tell

Act: TypeAlias = Callable[[Any, np.ndarray[Any, Any]], Any]
"""(observations as the environment gives them, which of them open an episode) -> actions as it takes them: [N, ...]"""

LONGEST_EPISODE = 100_000  # steps after which an episode counts as one that never ends


class HostSimulator(Simulator):
    """A vector environment that Gymnasium steps on the host. A policy of ours is compiled; others act by themselves."""

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], name: str, source: Environment) -> None:
        """Ask the environment for its groups and criteria by one step, which belongs to no episode that counts."""
        self.name, self.source, self.copies, self.env = name, source, env.num_envs, env
        space = env.single_observation_space
        self.observation_shape = tuple(space.shape) if isinstance(space, gymnasium.spaces.Box) else None
        self._steps = VectorSteps(env)
        self._observations: Any = None  # [N, observation] before the next step; None before the first episode
        actions = distribution_for(env.single_action_space)
        size, names, groups = self._steps.probe()
        self.shape = Shape(size, actions, names.criteria, groups)
        self.notion, self.group_names = names.notion, names.groups

    def start(self, key: jax.Array, copies: int) -> None:
        """The copies live in the environment: nothing is carried along."""
        del key, copies
        self.forget()

    def forget(self) -> None:
        """The next rollout begins with new episodes."""
        self._observations = None

    def collect(self, learner: Learner, states: TrainState, seed: int) -> tuple[TrainState, Rollout]:
        """Step by step on the host, for the only member."""
        if learner.settings.reset_each_rollout or self._observations is None:
            self._restart(seed, int(states.iteration[0]))
            fresh = Running.none(*states.running.supply.shape[1:])
            states = states._replace(running=jax.tree.map(lambda x: x[None], fresh))
        policy = jax.tree.map(lambda x: x[0], Policy(states.weights, states.gathered))
        keys = jax.random.split(jax.random.fold_in(states.key[0], 1), learner.settings.rollout)
        rows = [self._step(learner.model, policy, key) for key in keys]
        return states, Rollout(*(np.stack(columns)[None] for columns in zip(*rows, strict=True)))

    def play(
        self, model: Model, policy: Policy, episodes: int, seed: int, *, deterministic: bool, progress: Tell
    ) -> Episodes:
        """Compiled actions, from the seed's key and the time."""
        key = jax.random.key(seed)

        def step(time: int) -> Rollout:
            return self._step(model, policy, jax.random.fold_in(key, time), deterministic)

        return self._episodes(step, episodes, seed, progress)

    def play_with(self, act: Act, episodes: int, seed: int, *, progress: Tell) -> Episodes:
        """The same for a function from observations to actions, which need not be compiled."""
        return self._episodes(
            lambda _: self._steps.step(act(self._steps.observations, self._steps.starts)), episodes, seed, progress
        )

    def _episodes(
        self, make_step: Callable[[int], Rollout | VectorStep], episodes: int, seed: int, progress: Tell
    ) -> Episodes:
        """Every copy plays the same number of episodes, so that short ones are not preferred."""
        self._restart(seed)
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

    def _restart(self, *seed: int) -> None:
        """New episodes. The seed is hashed: Gymnasium gives copy i the seed + i, and neighbours would share them."""
        words = np.random.SeedSequence(seed).generate_state(1)
        self._observations = self._steps.reset(int(words[0] // 2))

    def _step(self, model: Model, policy: Policy, key: jax.Array, deterministic: bool = False) -> Rollout:
        """One step of every copy under the policy. [N, ...] each"""
        before = self._observations
        action, log_prob = (np.asarray(x) for x in act_from_key(model, policy, before, key, deterministic))
        step = self._steps.step(model.distribution.to_env(action))
        self._observations = step.next_observation
        return Rollout.of(
            step,
            observation=before,
            next_observation=step.final_observation,
            action=action,
            log_prob=log_prob,
            counted=step.counted,
        )
