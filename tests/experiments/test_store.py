"""Runs at an address: what is sent, in which order, and who goes on from it."""
# pyright: reportArgumentType=false

import dataclasses
import sys

import pytest

from elbert.errors import ElbertError
from elbert.experiments import store as store_module
from elbert.experiments.jobs import do_jobs, finished
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.store import NO_STORE, AddressStore, _Mirror, open_store
from elbert.files import FileError
from tests.experiments.engines import Here
from tests.experiments.small_runs import same
from tests.experiments.test_jobs import SMALL

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(params=["file", "memory"])
def address(request, tmp_path):
    place = f"memory://{tmp_path.name}" if request.param == "memory" else (tmp_path / "store").as_uri()
    yield place
    if request.param == "memory":
        fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


def files(path):
    return {each.relative_to(path).as_posix(): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def make_run(path, **content):
    for name, text in {"config.json": "{}", "manifest.json": "1", **content}.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)


def test_what_was_sent_comes_back_without_what_is_gone(address, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    mirror = _Mirror(AddressStore(address), "run", here)
    assert not mirror.fetch(), "nothing is there yet"
    make_run(here, **{"checkpoints/1.safetensors": "one", "agent.safetensors": "a", ".lock": ""})
    (here / ".manifest.json.0123456789abcdef").write_text("half")
    mirror.send()
    (here / "checkpoints/1.safetensors").unlink()
    make_run(here, **{"checkpoints/2.safetensors": "two", "manifest.json": "22"})
    mirror.send()
    assert _Mirror(AddressStore(address), "run", there).fetch()
    assert {name: content.decode() for name, content in files(there).items()} == {
        "config.json": "{}",
        "manifest.json": "22",
        "agent.safetensors": "a",
        "checkpoints/2.safetensors": "two",
    }
    assert AddressStore(address).manifest("run", tmp_path) == 22
    assert AddressStore(address).manifest("another", tmp_path) is None
    assert AddressStore(address).fetch_results("run", tmp_path / "results")
    assert "checkpoints/2.safetensors" not in files(tmp_path / "results" / "run"), "only a training needs it"


def test_the_manifest_is_sent_last_and_as_it_was(address, tmp_path, monkeypatch):
    """Red if a manifest could arrive before the files that it speaks of."""
    here = tmp_path / "here"
    mirror, order = _Mirror(AddressStore(address), "run", here), []
    make_run(here, **{"zeta": "z", "checkpoints/1": "one"})
    write = mirror._write

    def written(name, content):
        order.append((name, content))
        if len(order) == 1:
            (here / "manifest.json").write_text("newer")  # the training goes on meanwhile
        write(name, content)

    monkeypatch.setattr(mirror, "_write", written)
    mirror.send()
    assert order[-1] == ("manifest.json", b"1")
    assert {name for name, _ in order} == {"config.json", "zeta", "checkpoints/1", "manifest.json"}
    mirror.send()
    assert order[-1] == ("manifest.json", b"newer")
    assert len(order) == 5, "what did not change is not sent again"


def test_whoever_takes_over_goes_on_from_the_store(address, tmp_path, monkeypatch):
    """A worker that dies after its first send, and another one on another machine."""
    monkeypatch.setattr(store_module, "SECONDS_BETWEEN_SENDS", 0.01)
    store = AddressStore(address)
    begun: list[int] = []
    train = store_module.RunFolder.checkpoint

    def dies_once(self, trainer, *rest, **more):
        begun.append(trainer.iteration)
        train(self, trainer, *rest, **more)
        if len(begun) == 1:
            raise KeyboardInterrupt  # which no job catches

    monkeypatch.setattr(store_module.RunFolder, "checkpoint", dies_once)
    with pytest.raises(KeyboardInterrupt):
        do_jobs([SMALL], tmp_path / "one", Here(), store=store)
    assert not (tmp_path / "one" / SMALL.name / "checkpoints").exists(), "it trained elsewhere"
    assert do_jobs([SMALL], tmp_path / "two", Here(), store=store) == {}
    assert begun.count(0) == 1, "the second one did not begin again"
    assert finished(RunFolder(tmp_path / "two" / SMALL.name))
    assert do_jobs([SMALL], tmp_path / "plain", Here()) == {}
    _Mirror(store, SMALL.name, tmp_path / "whole").fetch()
    assert same(tmp_path / "whole", tmp_path / "plain" / SMALL.name)
    engine = Here()
    assert do_jobs([SMALL], tmp_path / "three", engine, store=store) == {}
    assert not engine.done, "a driver without a folder finds what is done in the store"
    assert finished(RunFolder(tmp_path / "three" / SMALL.name))


def test_a_store_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "PAUSES", (0.01,))
    (tmp_path / "file").write_text("no folder")
    failed = do_jobs([SMALL], tmp_path / "runs", Here(), store=AddressStore((tmp_path / "file" / "x").as_uri()))
    assert "Cannot write" in failed[SMALL.name]


def test_names_that_lead_elsewhere_are_refused(tmp_path):
    memory = fsspec.filesystem("memory")
    memory.pipe({"/leads/run/manifest.json": b"1", "/leads/run/../../../escaped.txt": b"x"})
    try:
        with pytest.raises(FileError, match="leads elsewhere"):
            AddressStore("memory://leads").fetch_results("run", tmp_path / "a" / "b")
        assert not list(tmp_path.rglob("escaped.txt"))
    finally:
        memory.rm("/leads", recursive=True)


def test_a_store_that_fails_once_costs_one_training(tmp_path, monkeypatch):
    """Red if the other trainings end with it."""
    other = dataclasses.replace(SMALL, seeds=(1,))
    fetch = AddressStore.fetch_results
    asked = []

    def fails_once(self, name, folder):
        asked.append(name)
        if asked.count(SMALL.name) == 2 and name == SMALL.name:
            raise FileError("the network is away")
        return fetch(self, name, folder)

    monkeypatch.setattr(AddressStore, "fetch_results", fails_once)
    failed = do_jobs([SMALL, other], tmp_path / "runs", Here(), store=AddressStore((tmp_path / "store").as_uri()))
    assert failed == {SMALL.name: "the network is away"}
    assert finished(RunFolder(tmp_path / "runs" / other.name))


def test_addresses_that_cannot_be_used(monkeypatch):
    assert open_store(None) is NO_STORE
    with pytest.raises(ElbertError, match="cannot be used"):
        open_store("nowhere://bucket/study")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ElbertError, match=r"pip install 'elbert\[store\]'"):
        open_store("s3://bucket/study")


def test_a_node_that_does_not_see_the_folder_says_so(tmp_path):
    with pytest.raises(FileError, match="does not see the folder"), NO_STORE.kept("run", tmp_path / "elsewhere"):
        pass
