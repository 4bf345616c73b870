"""Files are written whole or not at all."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

import elbert
from elbert import files
from elbert.errors import ElbertError, InvalidInputError
from elbert.files import FileError


def test_folders_are_made_and_content_replaced(tmp_path):
    path = tmp_path / "a" / "b.txt"
    files.write_whole(path, "one")
    files.write_whole(path, b"two")
    assert path.read_text() == "two"
    assert [entry.name for entry in path.parent.iterdir()] == ["b.txt"]


def test_new_files_have_the_usual_rights(tmp_path):
    (tmp_path / "usual").write_text("")
    files.write_whole(tmp_path / "ours", "")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_full_disk_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "kept.txt"
    files.write_whole(path, "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(ElbertError, match=r"kept.txt \(No space left on device\).*unchanged"):
        files.write_whole(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept.txt"]


@pytest.mark.parametrize("value", [3, [], None, b"folder", True])
def test_what_is_no_path_is_refused(value):
    with pytest.raises(InvalidInputError, match=r"Give a path: text or a pathlib\.Path"):
        elbert.load(value)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a" * 300, "loop", "loop/below"])
def test_paths_that_lead_nowhere_are_refused_by_name(name, tmp_path, monkeypatch):
    """Red if the system's own ValueError, OSError or RuntimeError comes through."""
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    with pytest.raises(ElbertError, match="Give another"):
        elbert.load(name)
    with pytest.raises(ElbertError, match=r"out is .* Give another"):
        elbert.train("lending", out=name)
    for refused in (files.read_bytes, files.read_text, files.read_json, files.read_tensors):
        with pytest.raises(FileError, match="Cannot read"):
            refused(Path(name))
    if not name.startswith("loop"):
        with pytest.raises(FileError, match="Cannot write"):
            files.write_whole(Path(name), "")
        with pytest.raises(FileError, match="Cannot write"):
            files.append_lines(Path(name), "")


def test_a_digest_tells_what_was_written_from_what_was_edited(tmp_path):
    path = tmp_path / "sealed.json"
    content = {"b": 1.0, "a": [None, True, "\u00e9", 1e-300], "c": {"2": 3}}
    files.write_sealed(path, content)
    assert files.read_sealed(path, remedy="") == content
    stored = json.loads(path.read_text())
    for edit in ({"b": 1}, {"b": 1.0000000000000002}, {"d": None}, {"digest": "0"}, {"digest": None}):
        path.write_text(json.dumps(stored | edit))
        with pytest.raises(FileError, match=r"sealed\.json was changed since it was written.*Do this\."):
            files.read_sealed(path, remedy="Do this.")
    path.write_text(json.dumps(content))
    with pytest.raises(FileError, match=r"sealed\.json was changed"):
        files.read_sealed(path, remedy="")


def test_files_of_other_programs_are_told_from_damaged_ones(tmp_path):
    path = tmp_path / "model.zip"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("policy.pth", "weights")
    path.write_bytes(archive.getvalue())
    with pytest.raises(
        FileError, match=r"model\.zip is not a file of elbert's: it is a zip archive.*stable-baselines3"
    ):
        elbert.load(path)
    path.write_bytes(save({"weight": np.zeros(3)}))
    with pytest.raises(FileError, match="is not a file of elbert's: its header has no '__metadata__'"):
        elbert.load(path)
    files.write_tensors(path, {"weight": np.zeros(3)}, {})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileError, match="is damaged"):
        elbert.load(path)
    path.write_bytes(save({"weight": np.zeros(3)}, {"about": "[" * 100_000 + "]" * 100_000, "checksum": ""}))
    with pytest.raises(FileError, match="is damaged"):
        elbert.load(path)
