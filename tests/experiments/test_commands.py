"""What people type: from training to comparison, mistakes, and environments of their own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elbert.cli_arguments import run_folder
from elbert.errors import InvalidInputError
from elbert.experiments.evaluate import Conditions, evaluate_policy
from elbert.experiments.run_folder import RunFolder
from tests.command_line import ENVIRONMENT, SCHEMA, cli, command

ROOT = Path(__file__).parents[2]
SMALL = ["--set", "minibatch=60", "--set", "hidden=[4]", "--set", "epochs=1"]


@pytest.mark.slow
def test_the_commands_from_training_to_comparison(tmp_path):
    train = ["train", "infectious", "--steps", "1920", "--set", "copies=4", "--set", "rollout=60", *SMALL]
    done = cli(*train, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "elbert-po on infectious: training, 8/8 iterations" in done.stderr
    assert "reward per step" in done.stdout
    assert "Run: runs/infectious-elbert-po-1" in done.stdout
    done = cli(*train, "--alpha", "0", "--seed", "3", "--json", "--tensorboard", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) > SCHEMA
    folder = tmp_path / "runs" / "infectious-elbert-po-2"
    assert list((folder / "tensorboard").rglob("events.out.tfevents*"))

    done = cli("evaluate", "runs/infectious-elbert-po-1", "--episodes", "30", "--horizon", "10", "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert set(result) > SCHEMA
    assert (result["env"], result["method"], result["episodes"], result["horizon"]) == (
        "infectious",
        "elbert-po",
        30,
        10,
    )
    assert set(result["bias"]) == {"estimate", "debiased", "ci", "noise_floor", "left_out", "reliable"}
    assert set(result["reward"]) == {"mean", "ci"}
    assert [set(row) for row in result["groups"]] == [{"group", "rate", "ci", "supply", "demand"}] * 2
    rates = [row["supply"] / row["demand"] for row in result["groups"]]
    assert rates == pytest.approx([row["rate"] for row in result["groups"]])

    listed = json.loads(cli("runs", "--json", cwd=tmp_path).stdout)
    assert [(run["path"], run["status"]) for run in listed] == [
        ("runs/infectious-elbert-po-1", "finished"),
        ("runs/infectious-elbert-po-2", "finished"),
    ]
    assert cli("runs", cwd=tmp_path).stdout.count("finished") == 2
    done = cli("compare", "runs/infectious-elbert-po-1", "runs/infectious-elbert-po-2", "--out", "both", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = {path.name for path in (tmp_path / "both").iterdir()}
    curves, scatter = ({f"{name}.png", f"{name}.svg"} for name in ("curves", "scatter"))
    assert written == {"comparison.html", "comparison.md", "comparison.json"} | curves | scatter


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "lendign"], "No environment is called 'lendign'. Did you mean 'lending'"),
        (["train", "lending", "--method", "pp0"], "No method is called 'pp0'"),
        (["train", "lending", "--set", "n_envs=4"], "No setting is called 'n_envs'. It is 'copies' here."),
        (["train", "lending", "--set", "gama=1"], "Did you mean 'gamma'"),
        (["train", "lending", "--set", "gamma"], "is not name=value"),
        (["train", "lending", "--steps", "-3"], "steps is -3"),
        (["train", "lending", "--resume"], "No unfinished run of elbert-po on lending is in runs"),
        (["train", "no_such_module:make"], "names no function that makes an environment"),
        (["evaluate", "nowhere"], "There is no run in nowhere"),
        (["train", "lending", "--alpha", "3", "--set", "alpha=5"], "--set alpha=5 gives alpha a second time"),
        (["train", "lending", "--set", "gamma=0.9", "--set", "gamma=0.8"], "--set gamma=0.8 gives gamma a second time"),
        (["train", "lending", "--preset", "broken.toml"], "lending is 3, not a section"),
        (["train", "lending", "--preset", "tables.toml"], "world must be a table"),
        (["runs", "nowhere"], "There is no folder nowhere"),
        (["compare"], "No runs were given"),
        (["train", "lending", "--world", "horizon"], "Write for example --world horizon=500"),
        (["train", "lending", "--seeds", "0"], "seeds is 0. Give a whole number from 1 to"),
        (["train", "lending", "--seeds", "5208561409075"], "seeds is 5208561409075. Give a whole number from 1 to"),
        (["train", "**"], "No environment is called '**'"),
        (["train", "json:loads", "--alpha", "1"], "a function that can be called without arguments"),
        (["train", "loop/mine.py:make"], "names no function that makes an environment"),
        (["train", "lending", "--set", "hidden=" + "[" * 100_000], "hidden"),
        (["train", "lending", "--out", "a" * 300], "File name too long"),
        (["compare", "loop"], "run is 'loop', which leads nowhere (Too many levels of symbolic links)"),
        (["runs", "loop"], "Too many levels of symbolic links"),
    ],
)
def test_mistakes_get_a_message_and_no_traceback(arguments, says, tmp_path, monkeypatch, capsys):
    from elbert import cli as module

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELBERT_COMPILATION_CACHE", "")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "broken.toml").write_text("lending = 3")
    (tmp_path / "tables.toml").write_text("[lending]\nworld = 3")
    monkeypatch.setattr(sys, "argv", ["elbert", *arguments])
    with pytest.raises(SystemExit) as caught:
        module.main()
    assert caught.value.code == 2
    shown = capsys.readouterr().err
    assert says in shown
    assert "Traceback" not in shown
    assert not list(tmp_path.rglob("config.json")), "nothing is left behind"


def test_an_edited_evaluation_is_not_compared(whole, tmp_path, monkeypatch, capsys):
    from elbert import cli as module

    folder = shutil.copytree(whole, tmp_path / "run")
    evaluate_policy(RunFolder(folder), Conditions(episodes=5, horizon=64), keep=True)
    path = folder / "evaluation.json"
    path.write_text(path.read_text().replace('"mean": ', '"mean": 1', 1))
    monkeypatch.setattr(sys, "argv", ["elbert", "compare", str(folder), "--out", str(tmp_path / "both")])
    with pytest.raises(SystemExit) as caught:
        module.main()
    assert caught.value.code == 2
    assert "evaluation.json was changed since it was written" in capsys.readouterr().err
    assert not (tmp_path / "both").exists()


def test_runs_are_numbered_and_the_last_unfinished_one_goes_on(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_folder("lending", "g-ppo", None, resume=False) == Path("runs/lending-g-ppo-1")
    for name in ("lending-g-ppo-2", "lending-g-ppo-10", "lending-g-ppo-x", "lending-g-ppo-harder-99"):
        shutil.copytree(whole, tmp_path / "runs" / name)
    assert run_folder("lending", "g-ppo", None, resume=False) == Path("runs/lending-g-ppo-11")
    assert run_folder("[a-z]*", "g-ppo", None, resume=False) == Path("runs/[a-z]*-g-ppo-1"), "no pattern"
    for status in ("interrupted", "failed", "stopped", "running"):
        RunFolder(Path("runs/lending-g-ppo-2")).note(status=status)
        assert run_folder("lending", "g-ppo", None, resume=True) == Path("runs/lending-g-ppo-2")
    RunFolder(Path("runs/lending-g-ppo-2")).note(status="finished")
    with pytest.raises(InvalidInputError, match="No unfinished run of g-ppo on lending"):
        run_folder("lending", "g-ppo", None, resume=True)


@pytest.mark.slow
def test_an_environment_in_a_file_trains_from_the_command_line(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from tests.learning.tiny import ProbeEnv\n\ndef make():\n    return ProbeEnv()\n"
    )
    options = ["--set", "copies=2", "--set", "rollout=32", "--set", "minibatch=32", "--steps", "128", "--alpha", "10"]

    def run(*words):
        paths = {"PYTHONPATH": str(ROOT)}
        return subprocess.run(command(*words), capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT | paths)

    done = run("train", "mine.py:make", *options, "--no-evaluate")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "runs" / "mine-elbert-po-1"
    assert (folder / "agent.safetensors").exists()
    assert not (folder / "evaluation.json").exists()
    done = run("evaluate", str(folder), "--env", "mine.py:make", "--json")
    assert done.returncode == 0, done.stderr
    shown, stored = json.loads(done.stdout), json.loads((folder / "evaluation.json").read_text())
    assert shown["env"] == stored["env"] == "ProbeEnv"
    assert stored["reward"] == shown["reward"]


def test_an_unexpected_error_of_the_system_is_a_message(monkeypatch, capsys):
    from elbert import cli as module

    def broken(*_):
        raise OSError(5, "Input/output error", "disk")

    monkeypatch.setattr(module, "app", broken)
    with pytest.raises(SystemExit):
        module.main()
    assert capsys.readouterr().err == "elbert: disk: Input/output error\n"


def test_an_error_in_a_users_environment_is_a_message(monkeypatch, capsys):
    from elbert import cli as module

    def broken(*_):
        raise ZeroDivisionError("no patients")

    monkeypatch.setattr(module, "app", broken)
    with pytest.raises(SystemExit) as caught:
        module.main()
    assert caught.value.code == 70, "1 would read as a refuted limit"
    shown = capsys.readouterr().err
    assert shown.startswith("elbert: ZeroDivisionError: no patients (")
    assert "test_commands.py, line " in shown
    assert "Traceback (" not in shown
    monkeypatch.setenv("ELBERT_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        module.main()
