"""Files are written whole or not at all."""

import pytest

from elbert import files
from elbert.errors import ElbertError


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
