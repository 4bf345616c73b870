"""Files are written whole: aside first, then renamed, so that a reader never meets half a file."""

import os
import tempfile
from pathlib import Path

from elbert.errors import ElbertError


class FileError(ElbertError, OSError):
    """A file or folder could not be read or written."""


def write_whole(path: Path, content: bytes | str) -> None:
    """Write the content under this name, all of it or nothing; folders on the way are made."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    aside: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o666 & ~_umask())
        os.replace(aside, path)
    except OSError as error:
        if aside is not None and os.path.exists(aside):
            os.unlink(aside)
        raise FileError(
            f"Cannot write {path} ({error.strerror or error}). Name a folder that can be written, on a disk with room. "
            "What stood there before is unchanged."
        ) from error


def _umask() -> int:
    """The process's umask; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
