"""A study end to end: rows over seeds from several runs, files, pages, what failed, what is read back."""
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false

import csv
import dataclasses
import io
import json
from pathlib import Path

import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.experiments import sweep as sweep_module
from elbert.experiments.plan import plan_from
from elbert.experiments.sources import open_sources
from elbert.experiments.store import NO_STORE
from elbert.experiments.sweep import do_sweep, folder_of, open_engine, read_sweep
from elbert.files import FileError
from elbert.progress import tell_nobody
from elbert.report.sweep import plan_page, write_sweep
from elbert.report.web.subjects import document_of
from elbert.tables import as_text
from tests.command_line import cli
from tests.envs.own import clinic
from tests.experiments.engines import Here
from tests.experiments.small_runs import TINY
from tests.experiments.test_jobs import failing
from tests.learning.tiny import Probe

SMALL = {**TINY, "hidden": [[4]], "steps": 4 * 64 * 2}
GRIDS = [
    {"env": Probe(), "alpha": [1.0, 5.0], "seeds": 3, **SMALL},
    {"env": Probe(), "method": "g-ppo", "seeds": [7], **SMALL},
]


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    """Trainings in this process: other engines are tested where they live."""
    monkeypatch.setattr(sweep_module, "open_engine", lambda workers, ray, cores: Here())


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "small"
    plan = plan_from({"title": "small", "side_by_side": 4, "grid": GRIDS})
    assert [len(job.request.members) for job in plan.jobs] == [3, 3, 1]
    patch = pytest.MonkeyPatch()
    patch.setattr(sweep_module, "open_engine", lambda workers, ray, cores: Here())
    try:
        return do_sweep(plan, folder, workers=None, ray=None, store=NO_STORE, progress=tell_nobody)
    finally:
        patch.undo()


@pytest.mark.slow
def test_a_row_is_a_mean_over_its_seeds(study):
    assert [row.done for row in study.rows] == [3, 3, 1]
    assert study.varied == ["method", "alpha"]
    first = study.rows[0]
    assert [single.seed for single in first.result.singles] == [0, 1, 2]
    rewards = [single.reward.mean for single in first.result.singles]
    assert first.result.reward.mean == pytest.approx(sum(rewards) / 3)
    assert [study.label(row) for row in study.rows] == [
        "elbert-po, alpha=1, seeds 0-2",
        "elbert-po, alpha=5, seeds 0-2",
        "g-ppo, seeds 7",
    ]
    assert not study.failed


@pytest.mark.slow
def test_seeds_of_one_row_may_lie_in_several_runs(study, tmp_path):
    """The same policies from runs of one seed each; their evaluations are those of other episodes."""
    plan = plan_from({"title": "apart", "side_by_side": 1, "grid": {**GRIDS[0], "alpha": 1.0, "seeds": 2}})
    assert len(plan.jobs) == 2
    apart = do_sweep(plan, tmp_path, workers=None, ray=None, store=NO_STORE, progress=tell_nobody)
    (row,) = apart.rows
    assert row.done == 2
    assert [single.seed for single in row.result.singles] == [0, 1]
    assert row.result.reward.ci is not None


@pytest.mark.slow
def test_what_is_written_says_the_same_and_is_read_back(study):
    written = {path.name: path for path in write_sweep(study)}
    assert set(written) == {f"sweep.{ending}" for ending in ("html", "md", "csv", "json", "png", "svg")}
    lines = list(csv.DictReader(io.StringIO(written["sweep.csv"].read_text())))
    assert [line["alpha"] for line in lines] == ["1.0", "5.0", ""]
    assert float(lines[0]["reward"]) == study.rows[0].result.reward.mean
    assert json.loads(written["sweep.json"].read_text())["rows"][2]["method"] == "g-ppo"
    again = read_sweep(study.folder)
    assert again == study
    assert str(again) == str(study)
    assert open_sources([str(study.folder)]) == study
    document = document_of(study)
    assert document.answer == "3 of 3 rows are done."
    assert "elbert-po, alpha=5" in document.to_html()
    assert study.to_frame()["done"] == (3, 3, 1)
    assert study.plot() is not None


@pytest.mark.slow
def test_a_study_under_way_can_be_looked_at(study, tmp_path):
    """Red if a page needs what is not there yet."""
    plan = plan_from({"title": "later", "grid": GRIDS})
    sweep_module._write_plan(tmp_path, plan.title, plan.rows)
    begun = read_sweep(tmp_path)
    assert [row.done for row in begun.rows] == [0, 0, 0]
    assert "0 of 7 policies are done" in as_text(begun._page(), 100)
    assert document_of(begun).answer == "0 of 3 rows are done."
    assert "sweep.png" not in {path.name for path in write_sweep(begun)}
    with pytest.raises(InvalidInputError, match="nothing to draw yet"):
        begun.plot()


@pytest.mark.slow
def test_runs_of_a_study_are_runs(study):
    listed = elbert.runs(study.folder)
    assert len(listed) == 3, "two coefficients, and one method without"
    assert all(run.evaluated for run in listed)


@pytest.mark.slow
def test_what_fails_is_named_and_the_exit_code_is_1(tmp_path, monkeypatch):
    short = {"alpha": 1.0, "steps": 96, "copies": 4, "rollout": 12, "minibatch": 12, "seeds": 1}
    grids = [{"env": env, **short} for env in (failing, clinic)]
    done = elbert.sweep(grids, out=tmp_path / "study", progress=None)
    assert [row.done for row in done.rows] == [0, 1]
    assert len(done.failed) == 1
    assert "RuntimeError: no such room" in done.failures
    assert "not there" in str(done)
    plan = tmp_path / "plan.toml"
    entries = "".join(f"{name} = {value}\n" for name, value in short.items())
    plan.write_text(f'env = "tests.experiments.test_jobs:failing"\n{entries}')
    for form in ([], ["--json"]):
        ended = cli("sweep", plan, "--out", tmp_path / "again", *form)
        assert ended.returncode == 1
        assert "1 training failed; the others are done." in ended.stderr


@pytest.fixture
def two(tmp_path):
    """The file of a plan."""
    plan = tmp_path / "study.toml"
    entries = {"seeds": 1, **SMALL, "alpha": [1.0, 5.0]}
    text = "".join(f"{name} = {value}\n" for name, value in entries.items())
    plan.write_text(f'title = "Two"\n[[grid]]\nenv = "elbert/Infectious-v0"\n{text}')
    return plan


def test_the_command_lists(two, tmp_path):
    listed = cli("sweep", two, "--list", cwd=tmp_path)
    assert listed.returncode == 0
    assert "Trainings: 1, of which 0 are done. Policies: 2. Rows of the table: 2." in listed.stdout
    assert not (tmp_path / "Two").exists()
    wrong = cli("sweep", tmp_path / "none.toml")
    assert wrong.returncode == 2
    assert "Cannot read" in wrong.stderr


@pytest.mark.slow
def test_the_command_does(two, tmp_path):
    done = cli("sweep", two, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 policies are done" in done.stdout
    assert (tmp_path / "Two" / "sweep.html").exists()
    again = cli("sweep", two, "--json", cwd=tmp_path)
    assert [row["alpha"] for row in json.loads(again.stdout)["rows"]] == [1.0, 5.0]
    page = cli("report", tmp_path / "Two", "--out", tmp_path / "page.html")
    assert page.returncode == 0, page.stderr
    assert "2 of 2 rows are done" in page.stdout


def test_pages_of_plans():
    plan = plan_from({"title": "small\x1b[2J", "grid": GRIDS, "search": {"env": "lending"}})
    text = as_text(plan_page(plan, 1), 120)
    assert "of which 1 are done. Policies: 7. Rows of the table: 3. The search adds its own" in " ".join(text.split())
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("title", "folder"), [("", "sweep"), ("../x", "x"), ("/etc/passwd", "etc-passwd"), ("My study 2", "My study 2")]
)
def test_a_title_is_no_way_out_of_the_folder(title, folder):
    assert folder_of(plan_from({"title": title, "env": "lending"})) == Path(folder)


@pytest.mark.slow
def test_a_spreadsheet_sees_no_formula(study):
    row = dataclasses.replace(study.rows[0], plan=dataclasses.replace(study.rows[0].plan, env="=HYPERLINK(1)"))
    assert "'=HYPERLINK(1)" in dataclasses.replace(study, rows=(row,)).to_csv()


def test_mistakes(tmp_path):
    with pytest.raises(InvalidInputError, match="leave workers out"):
        open_engine(2, "local", 1)
    with pytest.raises(InvalidInputError, match="The search has no space"):
        elbert.sweep({"grid": GRIDS, "search": {"env": "lending"}}, out=tmp_path / "x", progress=None)
    assert not (tmp_path / "x").exists(), "before anything is trained"
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(FileError, match="Start the sweep again"):
        read_sweep(tmp_path)
