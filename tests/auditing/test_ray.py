"""An audit by Ray tasks gives the answer of the single scan, to the bit."""
# pyright: reportMissingImports=false, reportArgumentType=false

import json
import os
import signal
import subprocess
import sys
import time

import duckdb
import numpy as np
import polars as pl
import pytest

import elbert
from elbert.auditing import ray_parts
from elbert.errors import InvalidInputError
from elbert.ray_cluster import ClusterError, connected

BASE = {"group": "group", "progress": None}
ASKED = {
    "amounts by month": {"time": "date", "period": "month", "unit": "branch", "supply": "paid", "demand": "due"},
    "unknown outcomes within departments": {
        "time": "date",
        "unit": "branch",
        "decision": "approved",
        "outcome": "repaid",
        "notion": "equalized-odds",
        "control": "department",
        "where": ["department>0", "date>=2001-01-01"],
        "max_bias": 0.1,
        "key": "id",
    },
    "counts": {"time": "date", "period": "week", "decision": "approved", "count": "people"},
    "rows as units": {"unit": "row", "decision": "approved", "where": "date>=2000-06-01"},
    "amounts by notion": {
        "unit": "branch",
        "decision": "paid",
        "outcome": "due",
        "notion": "discovery-probability",
        "time": "date",
    },
}


def log(rows=12_000):
    rng = np.random.default_rng(5)
    due = np.round(rng.lognormal(3, 2, rows), 2)
    days = pl.Series(11_000 + rng.integers(0, 1200, rows)).cast(pl.Int32).cast(pl.Date)
    return pl.DataFrame(
        {
            "id": np.arange(rows) % (rows - 500),
            "date": days.to_frame("date").select(pl.when(pl.int_range(pl.len()) % 97 > 0).then("date"))["date"],
            "group": np.array(["a", "b", "c", "unknown"])[rng.choice(4, rows, p=[0.4, 0.3, 0.27, 0.03])],
            "branch": rng.integers(0, 40, rows),
            "due": due,
            "paid": due * rng.random(rows),
            "people": rng.integers(1, 40, rows) / 8 + 0.1,
            "approved": np.array(["yes", "no", "?"])[rng.choice(3, rows, p=[0.5, 0.45, 0.05])],
            "repaid": np.array(["1", "0", ""])[rng.choice(3, rows, p=[0.6, 0.3, 0.1])],
            "department": rng.integers(0, 4, rows),
        }
    )


def written(folder, kind):
    for number, part in enumerate(log().iter_slices(5000)):
        path = folder / f"{number}.{kind}"
        part.write_csv(path) if kind == "csv" else part.write_parquet(path, row_group_size=1500)
    return sorted(folder.glob(f"*.{kind}"))


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray", reason="ray is not installed")
    from ray.cluster_utils import Cluster

    nodes = {"num_cpus": 1, "object_store_memory": 100_000_000}
    started = Cluster(initialize_head=True, head_node_args={**nodes, "include_dashboard": False})
    for _ in range(2):
        started.add_node(**nodes)
    with connected(started.address) as ray:
        assert len(ray.nodes()) == 3
        yield ray
    started.shutdown()


# Ray keeps the log files and pipes of its processes open until they are collected.
leaves_files_open = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@leaves_files_open
@pytest.mark.cluster
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_the_answer_of_a_cluster_is_that_of_a_single_scan(kind, asked, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_parts, "FEWEST_ROWS", 1234)  # several parts of each Parquet file
    files, told = written(tmp_path, kind), []
    wanted = elbert.audit(files, **BASE, **asked).to_dict()
    answer = elbert.audit(files, ray="auto", **(BASE | asked | {"progress": told.append}))
    assert answer.to_dict() == wanted
    assert cluster.is_initialized(), "a connection that was there must be left open"
    totals = {each.total for each in told if each.unit == "parts"}
    assert max(totals) == (3 if kind == "csv" else 10)  # of 1334 rows, three for each core: 4, 4 and 2 in the files


@leaves_files_open
@pytest.mark.cluster
def test_a_worker_that_dies_is_replaced(cluster, tmp_path, monkeypatch):
    files = written(tmp_path, "parquet")
    monkeypatch.setattr(ray_parts, "_compute", dying(str(tmp_path / "died")))
    answer = elbert.audit(files, ray="auto", **BASE, **ASKED["rows as units"])
    assert (tmp_path / "died").exists()
    assert answer.to_dict() == elbert.audit(files, **BASE, **ASKED["rows as units"]).to_dict()


def dying(mark):
    """What a task does, but the first kills its process."""
    compute = ray_parts._compute

    def dies_once(plan, version):
        import os
        from pathlib import Path

        if not Path(mark).exists():
            Path(mark).touch()
            os._exit(1)
        return compute(plan, version)

    return dies_once


@leaves_files_open
@pytest.mark.cluster
def test_mistakes_in_files_are_named_as_in_a_single_scan(cluster, tmp_path):
    (tmp_path / "a.csv").write_text("group,yes,unit\n" + "a,1,x\nb,0,y\n" * 50)
    (tmp_path / "b.csv").write_text("group,yes,unit\n" + "a,1,x\nb,0,y\n" * 50 + "a,1,x,4\n")
    asked = BASE | {"decision": "yes", "unit": "unit"}
    messages = []
    for options in ({}, {"ray": "auto"}):
        with pytest.raises(InvalidInputError) as caught:
            elbert.audit(tmp_path, **options, **asked)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "b.csv" in messages[0]


@leaves_files_open
@pytest.mark.cluster
def test_a_file_that_a_machine_does_not_have(cluster, tmp_path):
    files = written(tmp_path, "parquet")
    plan = pl.scan_parquet(files[0])
    files[0].unlink()
    with pytest.raises(ClusterError, match=r"does not have a file of the log .* same path on every machine"):
        list(ray_parts._computed(cluster, lambda _: None, [plan]))


@pytest.mark.cluster
def test_the_command_starts_its_own_ray_and_prints_the_same(tmp_path):
    """It ends with 130 when it is interrupted."""
    pytest.importorskip("ray", reason="ray is not installed")
    written(tmp_path, "parquet")
    asked = ["--group", "group", "--decision", "approved", "--unit", "branch", "--json"]
    command = [sys.executable, "-m", "elbert", "audit", str(tmp_path), *asked]
    outputs = [
        subprocess.run([*command, *more], capture_output=True, check=True).stdout for more in ([], ["--ray", "local"])
    ]
    assert outputs[0] == outputs[1]
    assert "ray" not in json.loads(outputs[0])["question"]
    running = subprocess.Popen(
        [*command, "--ray", "local"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert running.stderr is not None
    said = running.stderr.readline()  # it has begun, and Ray is far from started
    time.sleep(1)
    os.kill(running.pid, signal.SIGINT)
    said += running.communicate(timeout=60)[1]
    assert running.returncode == 130, said
    assert "Traceback" not in said


def test_without_ray_the_message_says_what_to_install(monkeypatch, tmp_path):
    log(100).write_parquet(tmp_path / "log.parquet")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"pip install 'elbert\[ray\]'"):
        elbert.audit(tmp_path / "log.parquet", ray="local", unit="row", decision="approved", **BASE)


@pytest.mark.parametrize(
    "made",
    [lambda each: each, pl.DataFrame.lazy, lambda each: duckdb.from_arrow(each.to_arrow())],
    ids=["polars", "lazy", "duckdb"],
)
def test_frames_are_refused(made):
    with pytest.raises(InvalidInputError, match=r"the log is no file.*Write the frame to Parquet, or leave ray out"):
        elbert.audit(made(log(100)), ray="local", unit="branch", decision="approved", **BASE)


def test_the_table_of_the_law_is_refused(tmp_path):
    """A setting that is accepted has an effect."""
    log(100).write_parquet(tmp_path / "log.parquet")
    command = [
        sys.executable,
        "-m",
        "elbert",
        "audit",
        str(tmp_path / "log.parquet"),
        "--law",
        "ll144",
        "--ray",
        "local",
    ]
    done = subprocess.run([*command, "--group", "group", "--decision", "approved"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "ray is given next to law" in done.stderr


def test_files_that_must_be_decoded_are_refused(tmp_path):
    (tmp_path / "log.csv").write_bytes("group,yes\nMänner,1\nFrauen,0\n".encode("cp1252"))
    with pytest.raises(InvalidInputError, match=r"not all of .* is UTF-8"):
        elbert.audit(tmp_path / "log.csv", ray="local", unit="row", decision="yes", **BASE)


@pytest.mark.parametrize("address", ["", "nonsense", 3, "host:123456"])
def test_what_is_no_address_is_refused(address, tmp_path):
    log(100).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(InvalidInputError, match=r"Give 'local' .*'auto'.* such as head-node:6379"):
        elbert.audit(tmp_path / "log.parquet", ray=address, unit="row", decision="approved", **BASE)


def test_an_address_where_nothing_listens():
    pytest.importorskip("ray", reason="ray is not installed")
    with (
        pytest.raises(ClusterError, match=r"No Ray cluster can be reached at '127\.0\.0\.1:1'"),
        connected("127.0.0.1:1"),
    ):
        pass
