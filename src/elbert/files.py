"""Files are written whole: aside first, then renamed, so that a reader never meets half a file."""

import contextlib
import os
import secrets
from pathlib import Path

from elbert.errors import ElbertError


class FileError(ElbertError, OSError):
    """A file or folder could not be read or written."""


def write_whole(path: Path, content: bytes | str) -> None:
    """Write the content under this name, all of it or nothing; folders on the way are made."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        _remove(aside)
        raise FileError(
            f"Cannot write {path} ({error.strerror or error}). Name a folder that can be written, on a disk with room. "
            "What stood there before is unchanged."
        ) from error


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # the folder itself may be out of reach: then nothing of ours is in it
        path.unlink(missing_ok=True)
