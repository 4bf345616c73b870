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


def test_the_ids_are_there_whichever_is_imported_first():
    use = "spec = gymnasium.spec('elbert/Lending-v0'); print(spec.vector_entry_point)"
    for first, second in (("elbert", "gymnasium"), ("gymnasium", "elbert")):
        code = f"import {first}\nimport {second}\n{use}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "elbert.gym_ids:make_vector_env"
    code = "import gymnasium; env = gymnasium.make('elbert:elbert/Lending-v0'); print(env.reset(seed=0)[0].shape)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(11,)"


def test_asking_for_gymnasium_is_not_importing_it():
    code = (
        "import elbert, importlib.util\n"
        "assert importlib.util.find_spec('gymnasium') is not None\n"
        "import gymnasium\n"
        "assert 'elbert/Lending-v0' in gymnasium.registry\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)


def test_importing_twice_registers_once():
    code = (
        "import sys, elbert, elbert.gym_ids as ids\n"
        "ids.register_when_imported()\n"
        "assert sum(type(f).__name__ == '_AfterGymnasium' for f in sys.meta_path) == 1\n"
        "import gymnasium\n"
        "assert not any(type(f).__name__ == '_AfterGymnasium' for f in sys.meta_path)\n"
        "ids.register_when_imported(); ids.register()\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)


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

    functions = {n: v for n, v in vars(fairness).items() if n in fairness.__all__ and inspect.isfunction(v)}
    words = ("get_notion", "register_notion", "decision_weights", "bias_limit_test", "mean_interval")
    for name in words:  # or equations below
        del functions[name]
    assert len(functions) >= 16
    for name, function in functions.items():
        first = (inspect.getdoc(function) or "").splitlines()[0]
        assert any(sign in first for sign in "=/"), name
