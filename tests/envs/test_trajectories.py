"""Each world against a course computed by hand: dynamics, reward, supply, demand, order of events."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbert.envs import INFECTED, RECOVERED, SUSCEPTIBLE, Attention, Infectious, InfectiousState, Lending

KEY = jax.random.key(0)


def at_the_counter(state, group, score, repays):
    """The same state with this applicant."""
    return state._replace(group=jnp.asarray(group), score=jnp.asarray(score), repays=jnp.asarray(repays))


class TestLending:
    """Three scores, two groups, shift 0.2."""

    world = Lending(
        initial_scores=((0.1, 0.9, 0.0), (0.5, 0.5, 0.0)),
        repayment=(0.0, 0.5, 1.0),
        shift=0.2,
        loan=2.0,
        interest=0.5,
        initial_cash=10.0,
        horizon=4,
    )

    def test_course(self):
        state, _ = self.world.reset(KEY)
        # group 0 at score 1, would repay, accepted: 0.2 of the group moves up, the bank earns 2 * 0.5
        state, step = self.world.step(KEY, at_the_counter(state, 0, 1, True), jnp.asarray(1))
        assert state.mass == pytest.approx(np.asarray([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0]]))
        assert float(step.reward) == 1.0
        assert step.supply.tolist() == [[1, 0]]
        assert step.demand.tolist() == [[1, 0]]
        # group 1 at score 1, would repay, rejected: nothing moves, but a benefit was due
        state, step = self.world.step(KEY, at_the_counter(state, 1, 1, True), jnp.asarray(0))
        assert state.mass[1] == pytest.approx(np.asarray([0.5, 0.5, 0.0]))
        assert float(step.reward) == 0.0
        assert step.supply.tolist() == [[0, 0]]
        assert step.demand.tolist() == [[0, 1]]
        # group 0 at score 0, defaults, accepted: at the lower end it stays; the loan of 2 is lost
        state, step = self.world.step(KEY, at_the_counter(state, 0, 0, False), jnp.asarray(1))
        assert state.mass[0] == pytest.approx(np.asarray([0.1, 0.7, 0.2]))
        assert float(step.reward) == -2.0
        assert step.supply.tolist() == step.demand.tolist() == [[0, 0]]
        assert not bool(step.truncated)
        # group 0 at score 2, defaults, accepted: min(0.2, 0.2) moves down; cash 10 + 1 - 2 - 2 = 7; the horizon is 4
        state, step = self.world.step(KEY, at_the_counter(state, 0, 2, False), jnp.asarray(1))
        assert state.mass[0] == pytest.approx(np.asarray([0.1, 0.9, 0.0]), abs=1e-6)
        assert float(state.cash) == 7.0
        assert bool(step.truncated)
        assert not bool(step.terminated)
        # the observation shows the next applicant, then the rates so far: 1 of 1 and 0 of 1
        seen = np.asarray(step.observation)
        assert seen[:3].argmax() == int(state.score)
        assert seen[3:5].argmax() == int(state.group)
        assert seen[:5].sum() == 2
        assert seen[5:].tolist() == [1.0, 0.0]

    def test_no_more_moves_than_there_is(self):
        """shift 0.2 of a score that holds 0.1: 0.1 moves."""
        state, _ = self.world.reset(KEY)
        state, _ = self.world.step(KEY, at_the_counter(state, 0, 0, True), jnp.asarray(1))
        assert state.mass[0] == pytest.approx(np.asarray([0.0, 1.0, 0.0]))

    def test_the_top_score_stays(self):
        state, _ = self.world.reset(KEY)
        state = at_the_counter(state._replace(mass=jnp.asarray([[0.0, 0.4, 0.6], [0.5, 0.5, 0.0]])), 0, 2, True)
        state, _ = self.world.step(KEY, state, jnp.asarray(1))
        assert state.mass[0] == pytest.approx(np.asarray([0.0, 0.4, 0.6]))

    def test_the_bank_that_cannot_lend_has_ended_by_itself(self):
        state, _ = self.world.reset(KEY)
        state = at_the_counter(state._replace(cash=jnp.asarray(3.9)), 0, 1, False)
        _, step = self.world.step(KEY, state, jnp.asarray(1))
        assert bool(step.terminated)
        assert not bool(step.truncated)
        state = at_the_counter(state._replace(cash=jnp.asarray(4.0)), 0, 1, False)
        _, step = self.world.step(KEY, state, jnp.asarray(1))
        assert not bool(step.terminated)  # exactly one loan is left

    def test_a_terminated_episode_is_not_also_truncated(self):
        state, _ = self.world.reset(KEY)
        state = at_the_counter(state._replace(cash=jnp.asarray(2.0), time=jnp.asarray(3)), 0, 1, False)
        _, step = self.world.step(KEY, state, jnp.asarray(1))
        assert (bool(step.terminated), bool(step.truncated)) == (True, False)

    def test_the_next_applicant_comes_from_the_scores_after_the_decision(self):
        """Everyone at score 1; the loan moves everyone up before the next one arrives."""
        world = Lending(initial_scores=[[0, 1.0, 0]], group_shares=[1.0], repayment=[0, 1, 1], shift=1.0)
        state, observation = world.reset(KEY)
        assert observation.tolist() == [0, 1, 0, 1, 0]
        state, step = world.step(KEY, state, jnp.asarray(1))
        assert step.observation.tolist() == [0, 0, 1, 1, 1]

    @pytest.mark.parametrize(
        ("notion", "supply", "demand"),
        [
            ("equal-opportunity", [[[1, 0]], [[0, 0]], [[0, 0]], [[0, 0]]], [[[1, 0]], [[0, 1]], [[0, 0]], [[0, 0]]]),
            ("demographic-parity", [[[1, 0]], [[0, 0]], [[1, 0]], [[0, 0]]], [[[1, 0]], [[0, 1]], [[1, 0]], [[0, 1]]]),
            ("accuracy-parity", [[[1, 0]], [[0, 0]], [[0, 0]], [[0, 1]]], [[[1, 0]], [[0, 1]], [[1, 0]], [[0, 1]]]),
            (
                "equalized-odds",
                [[[1, 0], [0, 0]], [[0, 0], [0, 0]], [[0, 0], [1, 0]], [[0, 0], [0, 0]]],
                [[[1, 0], [0, 0]], [[0, 1], [0, 0]], [[0, 0], [1, 0]], [[0, 0], [0, 1]]],
            ),
        ],
    )
    def test_notions(self, notion, supply, demand):
        """Accept a repayer of group 0, reject one of group 1, accept a defaulter of 0, reject one of 1."""
        world = Lending(notion=notion)
        state, observation = world.reset(KEY)
        cases = [(0, True, 1), (1, True, 0), (0, False, 1), (1, False, 0)]
        seen = observation
        for (group, repays, action), given, due in zip(cases, supply, demand, strict=True):
            state, step = world.step(KEY, at_the_counter(state, group, 3, repays), jnp.asarray(action))
            assert step.supply.tolist() == given
            assert step.demand.tolist() == due
            seen = step.observation
        assert observation.shape == world.observation_space.shape
        totals = np.sum(supply, axis=0).ravel(), np.sum(demand, axis=0).ravel()
        rates = [s / d if d else 0 for s, d in zip(*totals, strict=True)]
        assert seen[9:].tolist() == pytest.approx(rates)

    def test_without_rates_the_observation_is_the_applicant(self):
        world = Lending(observe_rates=False)
        assert world.observation_space.shape == (9,)
        assert world.reset(KEY)[1].shape == (9,)


class TestInfectious:
    """Four people in a row, 0 - 1 - 2 - 3; groups 0, 0, 1, 1; all probabilities 0 or 1."""

    row = ((0, 1), (1, 2), (2, 3))

    def world(self, **parameters):
        chosen = {"infection": 1.0, "recovery": 0.0, "waning": 0.0, "burn_in": 0, "horizon": 3} | parameters
        return Infectious(graph=self.row, groups=[0, 0, 1, 1], **chosen)

    def test_course(self):
        world = self.world()
        state, observation = world.reset(KEY)
        assert observation.reshape(4, 3).argmax(axis=1).tolist() == [INFECTED, SUSCEPTIBLE, SUSCEPTIBLE, SUSCEPTIBLE]
        # a dose for 3, then 1 is infected by 0
        state, step = world.step(KEY, state, jnp.asarray(3))
        assert state.health.tolist() == [INFECTED, INFECTED, SUSCEPTIBLE, RECOVERED]
        assert float(step.reward) == 0.5
        assert step.supply.tolist() == [[0, 1]]
        assert step.demand.tolist() == [[1, 0]]
        # a dose for 0, who is infected: it counts as given and changes nothing; 2 is infected by 1
        state, step = world.step(KEY, state, jnp.asarray(0))
        assert state.health.tolist() == [INFECTED, INFECTED, INFECTED, RECOVERED]
        assert float(step.reward) == 0.25
        assert step.supply.tolist() == [[1, 0]]
        assert step.demand.tolist() == [[0, 1]]
        # nobody; everyone who can be infected is; the horizon is reached
        state, step = world.step(KEY, state, jnp.asarray(4))
        assert state.health.tolist() == [INFECTED, INFECTED, INFECTED, RECOVERED]
        assert step.supply.tolist() == step.demand.tolist() == [[0, 0]]
        assert (bool(step.terminated), bool(step.truncated)) == (False, True)

    def test_treatment_comes_before_the_change(self):
        """The dose protects 1 from 0 in the very same step."""
        world = self.world()
        state, _ = world.step(KEY, world.reset(KEY)[0], jnp.asarray(1))
        assert state.health.tolist() == [INFECTED, RECOVERED, SUSCEPTIBLE, SUSCEPTIBLE]

    def test_everyone_changes_at_once(self):
        """1 is infected by 0 but does not pass it on in the same step."""
        world = self.world()
        state, _ = world.step(KEY, world.reset(KEY)[0], jnp.asarray(4))
        assert state.health.tolist() == [INFECTED, INFECTED, SUSCEPTIBLE, SUSCEPTIBLE]

    def test_who_recovers_still_infects_in_that_step(self):
        world = self.world(recovery=1.0)
        state, step = world.step(KEY, world.reset(KEY)[0], jnp.asarray(4))
        assert state.health.tolist() == [RECOVERED, INFECTED, SUSCEPTIBLE, SUSCEPTIBLE]
        assert step.demand.tolist() == [[1, 0]]

    def test_immunity_is_lost_even_in_the_step_of_the_vaccination(self):
        world = self.world(waning=1.0)
        state, step = world.step(KEY, world.reset(KEY)[0], jnp.asarray(1))
        assert state.health.tolist() == [INFECTED, SUSCEPTIBLE, SUSCEPTIBLE, SUSCEPTIBLE]
        assert step.demand.tolist() == [[0, 0]]

    def test_effective_supply_counts_only_doses_that_changed_a_state(self):
        world = self.world(supply="effective")
        state, _ = world.reset(KEY)
        for person, supply in ((0, [[0, 0]]), (3, [[0, 1]]), (3, [[0, 0]])):
            state, step = world.step(KEY, state, jnp.asarray(person))
            assert step.supply.tolist() == supply

    def test_several_doses(self):
        world = self.world(doses=3)
        state, _ = world.reset(KEY)
        state, step = world.step(KEY, state, jnp.asarray([2, 2, 0]))
        assert state.health.tolist() == [INFECTED, INFECTED, RECOVERED, SUSCEPTIBLE]
        assert step.supply.tolist() == [[1, 2]]
        effective = self.world(doses=3, supply="effective")
        _, step = effective.step(KEY, effective.reset(KEY)[0], jnp.asarray([2, 2, 4]))
        assert step.supply.tolist() == [[0, 1]]

    def test_the_burn_in_counts_in_nothing(self):
        world = self.world(burn_in=2)
        state, _ = world.reset(KEY)
        assert state.health.tolist() == [INFECTED, INFECTED, INFECTED, SUSCEPTIBLE]
        assert int(state.time) == 0

    @pytest.mark.parametrize("first_case", [None, 2])
    def test_several_first_cases_are_different_people_and_anyone(self, first_case):
        world = self.world(first_case=first_case, first_cases=2, burn_in=0)
        health = jax.vmap(lambda key: world.reset(key)[0].health)(jax.random.split(KEY, 400))
        infected = np.asarray(health == INFECTED)
        assert (infected.sum(axis=1) == 2).all()
        shares = infected.mean(axis=0)
        expected = [0.5] * 4 if first_case is None else [1 / 3, 1 / 3, 1, 1 / 3]
        assert np.allclose(shares, expected, atol=0.11), shares

    def test_a_random_first_case_may_be_anyone(self):
        world = self.world(first_case=None)
        health = jax.vmap(lambda key: world.reset(key)[0].health)(jax.random.split(KEY, 400))
        assert (np.asarray(health == INFECTED).sum(axis=1) == 1).all()
        first = np.asarray(health).argmax(axis=1)
        assert np.bincount(first, minlength=4) == pytest.approx([100] * 4, abs=40)

    def test_infection_by_several_neighbours(self):
        """1 - (1 - 0.3)**2 for a person with two infected neighbours."""
        world = Infectious(graph=self.row, groups=[0, 0, 1, 1], infection=0.3)
        health = jnp.asarray([INFECTED, SUSCEPTIBLE, INFECTED, SUSCEPTIBLE], jnp.int8)
        state = InfectiousState(health, jnp.asarray(0))
        after = jax.vmap(lambda key: world.step(key, state, jnp.asarray(4))[0].health)(jax.random.split(KEY, 20_000))
        share = np.asarray(after == INFECTED).mean(axis=0)
        assert share[1] == pytest.approx(1 - 0.7**2, abs=4 * np.sqrt(0.25 / 20_000))
        assert share[3] == pytest.approx(0.3, abs=4 * np.sqrt(0.25 / 20_000))


class TestAttention:
    """Two busy sites and a quiet one; 4 units. A rate of 1000 always shows more incidents than there are units."""

    world = Attention(
        initial_rates=(1000.0, 1000.0, 0.0), fall=(1.0, 2.0, 3.0), growth=(5.0, 6.0, 7.0), units=4, horizon=2
    )

    def test_course(self):
        state, observation = self.world.reset(KEY)
        assert observation.tolist() == [0] * 96
        # logits 3, -3, -3: shares 3.98, 0.01, 0.01 of 4 units are 3, 0, 0 and the one left goes to the first
        state, step = self.world.step(jax.random.key(1), state, jnp.asarray([3.0, -3.0, -3.0]))
        y = np.asarray(step.demand)[0]
        assert y[0] > 800
        assert y[1] > 800
        assert y[2] == 0
        assert step.supply.tolist() == [[4, 0, 0]]
        assert float(step.reward) == pytest.approx(4 - 0.25 * (y[0] - 4 + y[1]))
        assert state.rates.tolist() == [996.0, 1006.0, 7.0]
        assert not bool(step.truncated)
        # logits 0, 0, 3: shares 0.18, 0.18, 3.64 are 0, 0, 3 and the one left goes to the third, whose rate falls to 0
        state, step = self.world.step(jax.random.key(2), state, jnp.asarray([0.0, 0.0, 9.0]))
        z = np.asarray(step.demand)[0]
        assert step.supply.tolist() == [[0, 0, min(z[2], 4)]]
        assert state.rates.tolist() == [1001.0, 1012.0, 0.0]
        assert (bool(step.terminated), bool(step.truncated)) == (False, True)
        # the observation: six empty steps, then found, incidents, units and found / (incidents + 1) of these two
        seen = np.asarray(step.observation).reshape(8, 4, 3)
        assert not seen[:6].any()
        assert seen[6, :3].tolist() == [[4, 0, 0], y.tolist(), [4, 0, 0]]
        assert seen[6, 3] == pytest.approx([4 / (y[0] + 1), 0, 0])
        assert seen[7, :3].tolist() == [[0, 0, min(z[2], 4)], z.tolist(), [0, 0, 4]]
        assert seen[7, 3] == pytest.approx([4 / (y[0] + z[0] + 1), 0, min(z[2], 4) / (z[2] + 1)])

    def test_the_harder_reward_counts_misses_only(self):
        world = Attention(initial_rates=(50.0, 50.0), units=3, reward_found=0.0)
        _, step = world.step(KEY, world.reset(KEY)[0], jnp.zeros(2))
        missed = float(jnp.sum(step.demand - step.supply))
        assert float(step.reward) == pytest.approx(-0.25 * missed)

    def test_a_neglected_site_grows_into_the_thousands(self):
        world = Attention(initial_rates=(10.0, 10.0), growth=2.0, units=1, horizon=2000)
        state, _ = world.reset(KEY)

        def neglect(state, key):
            state, step = world.step(key, state, jnp.asarray([3.0, -3.0]))
            return state, step.demand[0, 1]

        state, incidents = jax.jit(lambda s: jax.lax.scan(neglect, s, jax.random.split(KEY, 2000)))(state)
        assert float(state.rates[1]) == pytest.approx(4010.0)
        assert float(incidents[-200:].mean()) == pytest.approx(3810, rel=0.01)
