"""The methods' formulas against numbers computed by hand, and one contract for every registered method."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalOperand=false, reportOperatorIssue=false

from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import elbert
from elbert.cli import app
from elbert.errors import InvalidInputError
from elbert.fairness.rates import Totals
from elbert.learning import METHODS, Estimates, Method, Setting, fair_advantage, get_method
from elbert.learning.methods import APPO, RPPO
from elbert.learning.methods.bias_limit import BiasLimit
from elbert.learning.methods.weighing import filled_rates
from tests.learning.tiny import Probe, Tiny, trainer_of
from tests.parameters import slow_after

SMALL: dict[str, Any] = {"copies": 4, "rollout": 16, "minibatch": 32, "hidden": [4], "steps": 4 * 16 * 2, "epochs": 1}


def test_fair_advantage_by_hand():
    """S = (3, 1), D = (6, 4): z = (1/2, 1/4), h = (z_0 - z_1)**2, slope = +-1/2."""
    eta = Totals(jnp.asarray([[3.0, 1.0]]), jnp.asarray([[6.0, 4.0]]))
    slope = jnp.asarray([[0.5, -0.5]])
    supply, demand = jnp.asarray([[[2.0, 4.0]]]), jnp.asarray([[[1.0, 8.0]]])
    # 0.5 (2/6 - 3 * 1/36) - 0.5 (4/4 - 1 * 8/16) = 0.125 - 0.25
    got = fair_advantage(jnp.asarray([7.0]), supply, demand, eta, slope, alpha=4.0)
    assert got.tolist() == pytest.approx([7.0 - 4.0 * (0.125 - 0.25)])


def estimates(reward, before, after, eta=None):
    zeros = jnp.zeros((len(reward), 1, 2))
    eta = eta or Totals(jnp.ones((1, 2)), jnp.ones((1, 2)))
    return Estimates(
        jnp.asarray(reward), zeros, zeros, eta, jnp.asarray(before), jnp.asarray(after), jnp.ones(np.shape(reward))
    )


def test_a_group_without_demand_moves_nothing():
    eta = Totals(jnp.asarray([[1.0, 3.0, 0.0]]), jnp.asarray([[2.0, 4.0, 0.0]]))
    assert filled_rates(*eta).tolist() == [[0.5, 0.75, 0.625]]
    signal = jnp.ones((1, 1, 3))
    got = fair_advantage(jnp.zeros(1), signal, signal, eta, jnp.asarray([[0.0, 0.0, 9.0]]), alpha=1.0)
    assert got.tolist() == [0.0]


def test_r_ppo_rewards_by_hand():
    reward, delta = jnp.asarray([1.0, 1.0, 1.0]), jnp.asarray([0.2, 0.25, 0.5])
    for form, expected in (
        ("threshold", [1.0, 0.5, 0.0]),
        ("excess", [1.0, 1.0, 0.5]),
        ("as-printed", [1.4, 1.5, 2.0]),
    ):
        method = RPPO(zeta=2.0, omega=0.25, penalty_form=form)
        assert method.reward(reward, delta).tolist() == pytest.approx(expected)


def test_a_ppo_terms_by_hand():
    parts = estimates([1.0, 1.0, 1.0], [0.2, 0.5, 0.5], [0.9, 0.75, 0.25])
    plain = APPO(omega=0.25, beta_1=3.0, beta_2=5.0, term_scaling="none")
    # level: 0, -1/4, -1/4; growth: not above omega, 1/2 - 3/4, shrinks
    expected = [1.0, 1 - 3 / 4 - 5 / 4, 1 - 3 / 4]
    assert plain.advantage(parts, None).tolist() == pytest.approx(expected)
    scaled = APPO(omega=0.25, beta_1=3.0, beta_2=5.0)
    parts = parts._replace(reward=jnp.asarray([0.0, 4.0, 2.0]))
    expected = [0 + 3 * 1 + 5 * 1, 1 + 3 * 0 + 5 * 0, 0.5 + 3 * 0 + 5 * 1]
    assert scaled.advantage(parts, None).tolist() == pytest.approx(expected)


def test_methods_are_refused_by_name():
    with pytest.raises(InvalidInputError, match=r"'elbertpo'. Did you mean 'elbert-po'"):
        get_method("elbertpo")


FORMS: set[type[Method]] = {form for kind in METHODS.values() for form in (kind, *kind.variants)}


@pytest.mark.parametrize("kind", slow_after(1, sorted(FORMS, key=lambda form: (form is not BiasLimit, str(form)))))
def test_every_method_keeps_the_contract(kind):
    """Settings that explain themselves, one advantage per sample, and a state that keeps its shape."""
    for name, described in kind.settings().items():
        assert described.meaning, name
    method = kind.of({"max_bias": 0.1} if "max_bias" in kind.settings() else {})
    assert kind.of(method.to_dict()) == method
    trainer = trainer_of(Tiny(groups=3, criteria=2), kind.name, **SMALL, **method.to_dict())
    metrics = trainer.step().metrics
    assert metrics.rates.shape == (1, 2, 3)
    assert all(values.shape == (1, 2) for values in metrics.method.values())
    assert jax.tree.map(jnp.shape, trainer.state.method) == jax.tree.map(lambda x: (1, *x.shape), method.start(2, 3))


class Cautious(Method):
    """A method of a user's own, with a number of its own."""

    name: ClassVar[str] = "cautious"
    kappa: Annotated[float, Setting("weight of group 1's supply", low=0)] = 1.0

    def advantage(self, estimates: Estimates, state: Any) -> jax.Array:
        return estimates.reward + self.kappa * estimates.supply[..., 0, 1]


@pytest.fixture
def registered():
    elbert.register(Cautious)
    yield
    METHODS.pop("cautious")


@pytest.mark.usefixtures("registered")
def test_a_new_method_is_one_class():
    """Registered, it trains by name, with its own setting, also in a grid."""
    agents = elbert.train_many(Probe(), method="cautious", seeds=[0], grid={"kappa": [0.0, 50.0]}, **SMALL)
    assert [agent.about.method_settings for agent in agents] == [{"kappa": 0.0}, {"kappa": 50.0}]
    assert not np.array_equal(*(agent.weights.actor.layers[0].weight for agent in agents))
    with pytest.raises(InvalidInputError, match=r"kappa is -1. Give a number of at least 0: weight of group 1"):
        elbert.train(Probe(), method="cautious", kappa=-1, **SMALL)
    with pytest.raises(InvalidInputError, match="kappa has no effect with g-ppo"):
        elbert.train(Probe(), method="g-ppo", kappa=1.0, **SMALL)


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_a_new_method_trains_on_the_command_line(tmp_path):
    tokens = ["lending", "--method", "cautious", "--out", str(tmp_path / "run"), "--no-evaluate"]
    given = {"copies": 2, "rollout": 64, "minibatch": 64, "kappa": 2.5}
    app(
        ["train", *tokens, "--steps", "128", *(x for k, v in given.items() for x in ("--set", f"{k}={v}"))],
        exit_on_error=False,
        result_action="return_value",
    )
    assert elbert.load(tmp_path / "run").about.method_settings == {"kappa": 2.5}


@pytest.mark.usefixtures("registered")
def test_a_name_that_is_taken_is_refused():
    elbert.register(Cautious)  # the same one again changes nothing

    def defined():
        class Cell(Cautious):
            name: ClassVar[str] = "a-cell"

        return Cell

    first, second = defined(), defined()  # a notebook's cell that is run twice
    elbert.register(first)
    elbert.register(second)
    assert METHODS.pop("a-cell") is second

    class Other(Cautious):
        name: ClassVar[str] = "cautious"

    with pytest.raises(InvalidInputError, match="A method is called 'cautious' already"):
        elbert.register(Other)


@pytest.mark.slow
def test_a_method_with_its_settings_and_a_class_train_too():
    by_name = elbert.train(Probe(), method="r-ppo", zeta=3.0, **SMALL)
    by_object = elbert.train(Probe(), method=RPPO(zeta=3.0), **SMALL)
    by_class = elbert.train(Probe(), method=RPPO, zeta=3.0, **SMALL)
    for other in (by_object, by_class):
        for one, two in zip(jax.tree.leaves(by_name.weights), jax.tree.leaves(other.weights), strict=True):
            assert np.array_equal(one, two)


def test_wrong_functions_are_met_with_what_is_needed():
    with pytest.raises(InvalidInputError, match="cannot be called with the estimates alone"):
        elbert.train(Probe(), method=lambda estimates, coefficients: estimates.reward, **SMALL)
    with pytest.raises(InvalidInputError, match="one number per sample"):
        elbert.train(Probe(), method=lambda estimates: estimates.supply, **SMALL)
    with pytest.raises(InvalidInputError, match=r"method is 3. Give one of"):
        elbert.train(Probe(), method=3, **SMALL)
