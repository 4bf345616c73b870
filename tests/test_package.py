"""The package as its users meet it: imports, names, documentation."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import elbert

MODULES = [m.name for m in pkgutil.walk_packages(elbert.__path__, "elbert.") if m.name != "elbert.__main__"]


def modules_after(statement):
    """Top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_nothing_heavy():
    assert not modules_after("import elbert") & {
        "jax",
        "numpy",
        "scipy",
        "matplotlib",
        "polars",
        "rich",
        "gymnasium",
        "networkx",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "statements",
    [
        "import elbert, gymnasium",
        "import gymnasium, elbert",
        "import elbert; from gymnasium.vector import VectorEnv; import gymnasium",
        "import elbert, importlib.util; importlib.util.find_spec('gymnasium'); import gymnasium",
        "import elbert, gymnasium; elbert.make_world('lending')",
    ],
)
def test_gymnasium_knows_the_worlds(statements):
    """Red if the ids are registered in one order of imports only, or twice, of which Gymnasium warns."""
    code = f"{statements}\nprint(gymnasium.make('elbert/Lending-v0').reset(seed=0)[0].shape)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(11,)"


@pytest.mark.parametrize("statements", ["import gymnasium, elbert", "import elbert, gymnasium"])
def test_knowing_the_worlds_does_not_import_them(statements):
    assert "jax" not in modules_after(f"{statements}; gymnasium.spec('elbert/Lending-v0')")


@pytest.mark.slow
def test_gymnasium_imports_elbert_where_the_id_names_it():
    code = "import gymnasium; env = gymnasium.make('elbert:elbert/Lending-v0'); print(env.reset(seed=0)[0].shape)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(11,)"


@pytest.mark.slow
def test_training_and_worlds_do_without_networkx():
    code = "import elbert; env = elbert.envs.WorldEnv(elbert.make_world('infectious')); env.reset(seed=0)"
    assert "networkx" not in modules_after(code)


def test_numpy_users_do_not_pay_for_jax():
    code = "import elbert; print(elbert.benefit_report([[1, 2], [2, 1]], [[3, 3], [3, 3]]))"
    assert not modules_after(code) & {"jax", "matplotlib", "polars"}


def test_every_public_name_exists_and_is_documented():
    for name in elbert.__all__:
        assert getattr(elbert, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = elbert.nothing
    assert set(elbert.__all__) <= set(dir(elbert))


@pytest.mark.parametrize("module", MODULES)
def test_everything_public_has_a_docstring(module):
    loaded = importlib.import_module(module)
    assert loaded.__doc__
    for name, value in vars(loaded).items():
        ours = getattr(value, "__module__", None) == module
        if ours and not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
            assert inspect.getdoc(value), f"{module}.{name}"


def test_the_fairness_functions_open_with_their_equation():
    from elbert import fairness

    functions = {name: value for name, value in vars(fairness).items() if inspect.isfunction(value)}
    words = ("get_notion", "register_notion", "decision_weights", "bias_limit_test", "mean_interval")
    for name in words:  # or equations below
        del functions[name]
    assert len(functions) >= 16
    for name, function in functions.items():
        first = (inspect.getdoc(function) or "").splitlines()[0]
        assert any(sign in first for sign in "=/"), name
