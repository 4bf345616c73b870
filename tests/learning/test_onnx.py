"""A policy as an ONNX model: the same actions and probabilities without JAX, checked before it is written."""

import dataclasses
import json
import sys
from importlib.metadata import version

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import elbert
from elbert.errors import ElbertError
from elbert.learning import Agent, Settings, onnx_model
from elbert.learning.agent import About
from elbert.learning.distributions import Categorical, distribution_for
from elbert.learning.networks import ACTIVATIONS, Model, Moments, Scale, Shape
from elbert.learning.policy import Policy
from tests.envs.own import clinic

TINY = {"copies": 2, "rollout": 32, "minibatch": 32, "hidden": [4], "epochs": 1, "steps": 2 * 32 * 2, "alpha": 1.0}
HOSTILE = ('a"}\n', "</script>", "\x00\u202e", "\udc80", "ключ")
SPACES = {
    "discrete": gymnasium.spaces.Discrete(5),
    "discrete from 7": gymnasium.spaces.Discrete(3, start=7),
    "discrete without a choice": gymnasium.spaces.Discrete(1, start=-2),
    "many alternatives": gymnasium.spaces.Discrete(5000),
    "multi-discrete": gymnasium.spaces.MultiDiscrete([2, 1, 4], start=[0, 5, -3]),
    "multi-discrete in rows": gymnasium.spaces.MultiDiscrete(np.array([[2, 3], [4, 2]])),
    "multi-binary": gymnasium.spaces.MultiBinary((2, 3)),
    "box": gymnasium.spaces.Box(-0.1, np.array([0.2, np.inf], np.float32), (2,), np.float32),
    "box in rows": gymnasium.spaces.Box(-np.inf, np.inf, (2, 2), np.float32),
    "box of a number": gymnasium.spaces.Box(0.0, 1.0, (), np.float64),
}


def agent_for(space, observed: tuple[int, ...] | None = (3,), names=("a", "b"), **settings):
    """An agent with random weights, and moments as after a training on numbers of different sizes."""
    size = 3 if observed is None else int(np.prod(observed))
    shape = Shape(size, distribution_for(space), ("rate",), 2)
    chosen = Settings.of({"hidden": [8, 8], "initial_deviation": 0.5, **settings})
    weights = Model(chosen, shape).init(jax.random.key(1))
    actor = eqx.tree_at(lambda network: network.layers[-1].weight, weights.actor, replace_fn=lambda weight: 80 * weight)
    moments = Moments(jnp.float32(10), jnp.arange(size, dtype=jnp.float32), 10 * jnp.arange(size, dtype=jnp.float32))
    about = About("somewhere", None, "elbert-po", 3, 100, 1.0, observed, max_bias=0.1, group_names=names, notion="own")
    return Agent(about, chosen, shape, Policy(weights._replace(actor=actor), moments), Scale.unit(shape.signals))


@pytest.fixture
def runtime():
    """The extra, without which the tests that need it are skipped."""
    pytest.importorskip("onnx", reason="onnx is not installed")
    return pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def run(runtime, path, **inputs):
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_the_model_acts_like_the_agent_in_every_space(space, runtime, tmp_path):
    agent = agent_for(space)
    exported = agent.to_onnx(tmp_path / "policy.onnx")
    pytest.importorskip("onnx").checker.check_model(exported.path, full_check=True)
    assert exported.observations == 1000
    assert exported.largest_difference < 1e-5
    assert exported.other_actions <= 1
    observation = np.random.default_rng(1).normal(size=(64, 3)).astype(np.float32)
    noise = np.asarray(agent.shape.actions.noise(jax.random.key(2), (64,)))
    outputs = run(runtime, exported.path, observation=observation, noise=noise)
    assert all(np.asarray(action) in space for action in outputs["action"])
    described = agent.action_probabilities(observation)
    if isinstance(agent.shape.actions, Categorical):
        parts = np.concatenate(described, axis=1) if isinstance(described, tuple) else described
        np.testing.assert_allclose(outputs["probabilities"], parts, atol=1e-5)
    else:
        np.testing.assert_allclose(outputs["mean"], described.mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(outputs["deviation"], described.deviation, rtol=1e-5)
    for value in exported.outputs:
        assert outputs[value.name].shape == (64, *value.shape[1:])
        assert outputs[value.name].dtype == value.type
    empty = run(runtime, exported.path, observation=observation[:0], noise=noise[:0])
    assert empty["action"].shape == (0, *space.shape)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_and_layout(activation, normalise, runtime, tmp_path):
    for hidden in ([], [4], [6, 5, 4]):
        settings = {"activation": activation, "normalise_observations": normalise, "hidden": hidden}
        agent = agent_for(SPACES["discrete"], critic="separate", **settings)
        assert agent.to_onnx(tmp_path / "policy.onnx").largest_difference < 1e-5


def test_a_critic_of_the_state_is_no_part_of_the_model(runtime, tmp_path):
    world = {"initial_rates": [3.0, 2.0], "horizon": 8}
    agent = elbert.train("attention", world=world, critic_sees="state", memory=[], progress=None, **TINY)
    assert agent.shape.state > 0
    assert agent.to_onnx(tmp_path / "policy").largest_difference < 1e-5


def test_every_activation_has_an_operator():
    assert onnx_model.OPERATORS.keys() == ACTIVATIONS.keys()


def test_noise_chooses_by_hand(runtime, tmp_path):
    """Weights 0 and biases log p: the probabilities are 0.5, 0.2 and 0.3 whatever is observed."""
    agent = agent_for(gymnasium.spaces.Discrete(3, start=10), hidden=[])
    numbers = jnp.zeros((3, 3)), jnp.log(jnp.asarray([0.5, 0.2, 0.3]))
    actor = eqx.tree_at(lambda a: (a.layers[0].weight, a.layers[0].bias), agent.weights.actor, numbers)
    policy = agent.policy._replace(weights=agent.weights._replace(actor=actor))
    path = dataclasses.replace(agent, policy=policy).to_onnx(tmp_path / "policy.onnx").path
    noise = np.array([[0.0], [0.49], [0.51], [0.69], [0.71], [0.999]], np.float32)
    outputs = run(runtime, path, observation=np.ones((6, 3), np.float32), noise=noise)
    assert outputs["action"].tolist() == [10, 10, 11, 11, 12, 12]
    np.testing.assert_allclose(outputs["probabilities"], [[0.5, 0.2, 0.3]] * 6, atol=1e-6)


def test_observations_have_the_shape_of_their_space(runtime, tmp_path):
    boxed = agent_for(SPACES["discrete"], (2, 3)).to_onnx(tmp_path / "boxed.onnx")
    assert boxed.inputs[0].shape == ("batch", 2, 3)
    flat = agent_for(SPACES["discrete"], None).to_onnx(tmp_path / "flat.onnx")
    assert (flat.inputs[0].shape, flat.inputs[0].meaning) == (("batch", 3), "as the environment gives it, flattened")


def test_the_same_agent_gives_the_same_bytes(runtime, tmp_path):
    for name in ("multi-discrete", "box"):
        agent = agent_for(SPACES[name])
        agent.save(tmp_path / "agent")
        one, two = agent.to_onnx(tmp_path / "one"), elbert.load(tmp_path / "agent").to_onnx(tmp_path / "two.onnx")
        assert one.path.name == "one.onnx"
        assert one.path.read_bytes() == two.path.read_bytes(), name


def test_the_model_says_where_it_comes_from(runtime, tmp_path):
    agent = agent_for(SPACES["discrete"], names=HOSTILE[:2])
    path = agent.to_onnx(tmp_path / "policy.onnx").path
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    agent.save(tmp_path / "agent")
    stored = (tmp_path / "agent.safetensors").read_bytes()
    assert about["agent_checksum"].encode() in stored, "so that the agent of a model can be found"
    assert (about["env"], about["method"], about["seed"], about["max_bias"]) == ("somewhere", "elbert-po", "3", "0.1")
    assert (about["notion"], about["elbert_version"]) == ("own", version("elbert"))
    assert about["noise"].startswith("uniform")
    assert about["choices"] == "[5]"
    assert "measured in a simulator" in about["caution"]
    plain = dataclasses.replace(agent, about=dataclasses.replace(agent.about, max_bias=None, group_names=None))
    session = runtime.InferenceSession(plain.to_onnx(path).path, providers=["CPUExecutionProvider"])
    assert not {"max_bias", "group_names"} & session.get_modelmeta().custom_metadata_map.keys()


def test_hostile_names_stay_text(runtime, tmp_path):
    agent = agent_for(SPACES["discrete"], names=HOSTILE)
    for env in HOSTILE:
        named = dataclasses.replace(agent, about=dataclasses.replace(agent.about, env=env))
        path = named.to_onnx(tmp_path / "policy.onnx").path
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        about = session.get_modelmeta().custom_metadata_map
        assert tuple(json.loads(about["group_names"])) == HOSTILE
        assert about["env"] == env.replace("\udc80", "\\udc80")


@pytest.mark.parametrize(("attribute", "value"), [("OPERATORS", {"tanh": "Relu"}), ("LARGEST_OBSERVATION", 1.0)])
@pytest.mark.parametrize("space", ["discrete", "box"])
def test_a_wrong_model_is_not_written(space, attribute, value, runtime, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_model, attribute, value)
    with pytest.raises(ElbertError, match=r"does not act like the policy.*Nothing was written"):
        agent_for(SPACES[space]).to_onnx(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_a_model_that_cannot_be_run_is_not_written(runtime, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_model, "OPERATORS", {"tanh": "NoSuchOperator"})
    with pytest.raises(ElbertError, match="cannot run the model"):
        agent_for(SPACES["discrete"]).to_onnx(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("space", ["discrete from 7", "multi-discrete", "box"])
def test_wrong_actions_from_right_probabilities_are_noticed(space, runtime, tmp_path, monkeypatch):
    agent = agent_for(SPACES[space])
    d = agent.shape.actions
    wrong = {"starts": (0,) * len(d.sizes)} if isinstance(d, Categorical) else {"low": (-9.0, -9.0)}
    broken = dataclasses.replace(agent, shape=dataclasses.replace(agent.shape, actions=dataclasses.replace(d, **wrong)))
    content = onnx_model.model_bytes(broken, pytest.importorskip("onnx"))
    monkeypatch.setattr(onnx_model, "model_bytes", lambda agent, onnx: content)
    (tmp_path / "policy.onnx").write_text("what stood there")
    with pytest.raises(ElbertError, match="actions are others"):
        agent.to_onnx(tmp_path / "policy.onnx")
    assert (tmp_path / "policy.onnx").read_text() == "what stood there"


def test_an_action_may_differ_only_on_a_boundary():
    described = (jnp.asarray([[0.5, 0.5]] * 5),)
    noise = np.array([[0.5], [0.50005], [0.5002], [0.4], [0.4]], np.float32)
    choices = np.array([[0], [0], [0], [1], [2]])
    assert onnx_model._near(choices, noise, described).ravel().tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_without_the_extra_the_message_says_what_to_install(missing, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ElbertError, match=r"pip install 'elbert\[onnx\]'"):
        agent_for(SPACES["discrete"]).to_onnx(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_an_agent_of_a_users_environment(runtime, tmp_path):
    agent = elbert.train(lambda: clinic(group_names=["north", "south", "west"]), **TINY)
    exported = agent.to_onnx(tmp_path / "policy.onnx")
    assert str(exported).startswith("1000 random observations: the same actions")
    assert "[batch, 3]  as the environment gives it" in str(exported)
    assert exported.to_dict()["inputs"][0]["shape"] == ["batch", 3]
