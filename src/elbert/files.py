"""Files are written whole: aside first, then renamed, so that a reader never meets half a file.

Arrays go into safetensors files, whose loading runs no code, with a checksum over names, shapes and contents.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elbert.errors import ElbertError

ASIDE = re.compile(r"\..+\.[0-9a-f]{16}")
"""Names of files that are being written."""


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


def remove_begun(folder: Path) -> None:
    """Take away what was begun aside in a folder by writers that were killed. Call it when nobody else writes there."""
    if folder.is_dir():
        for path in folder.iterdir():
            if ASIDE.fullmatch(path.name):
                _remove(path)


def read_bytes(path: Path) -> bytes:
    """All of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"Cannot read {path} ({error.strerror or error}).") from error


def read_text(path: Path) -> str:
    """The text of a file; a `FileError` names it if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"Cannot read {path} ({getattr(error, 'strerror', None) or error}).") from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; a `FileError` names it if it is damaged."""
    try:
        content = json.loads(read_text(path))
    except ValueError as error:
        raise FileError(f"{path} is damaged: it is not JSON ({error}).") from error
    if not isinstance(content, dict):
        raise FileError(f"{path} is damaged: it holds no JSON object.")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """An object as JSON, whole."""
    write_whole(path, json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]], about: Mapping[str, Any]) -> None:
    """Named arrays and a JSON object about them in one safetensors file, whole."""
    from safetensors.numpy import save

    whole = {name: np.require(array, requirements="C") for name, array in arrays.items()}
    text = json.dumps(about, allow_nan=False, sort_keys=True)
    write_whole(path, save(whole, {"about": text, "checksum": _checksum(whole, text)}))


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """What `write_tensors` wrote; a file that is not it, to the bit, is refused by name."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileError(f"Cannot read {path} ({error.strerror or error}).") from error
    try:
        arrays = load(data)
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])["__metadata__"]
        about, checksum = header["about"], header["checksum"]
        content = json.loads(about)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} is damaged or not a file of elbert's: {error}. Take another copy of it.") from error
    if checksum != _checksum(arrays, about):
        raise FileError(f"{path} is damaged: its contents do not match their checksum. Take another copy of it.")
    return arrays, content


def _checksum(arrays: Mapping[str, np.ndarray[Any, Any]], about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(arrays):
        digest.update(f"{name}:{arrays[name].dtype}:{arrays[name].shape};".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # the folder itself may be out of reach: then nothing of ours is in it
        path.unlink(missing_ok=True)
