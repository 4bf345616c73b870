"""Files that are written whole: aside first, then renamed, so that a reader never meets half of one.

Arrays go into safetensors files, whose loading runs no code, with a checksum over names, shapes and contents. JSON that
is read back carries a digest of itself, which tells a file that was edited from one that was written.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from elbert.errors import ElbertError, InvalidInputError

Record = TypeVar("Record")
ASIDE = re.compile(r"\..+\.[0-9a-f]{16}")  # names of files that are being written


class FileError(ElbertError, OSError):
    """A file or folder could not be read or written."""


def as_path(value: Any, name: str = "path") -> Path:
    """A path that the system can look up, whether something is there or not; the user calls it `name`."""
    try:
        Path(value).stat()
    except TypeError as error:
        raise InvalidInputError(f"{name} is {value!r}. Give a path: text or a pathlib.Path.") from error
    except (OSError, ValueError) as error:  # of which some only say that nothing is there yet
        if isinstance(error, ValueError) or error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise FileError(
                f"{name} is {str(value)!r}, which leads nowhere ({_reason(error)}). Give another."
            ) from error
    return Path(value)


def write_whole(path: Path, content: bytes | str) -> None:
    """Write the content under this name, all of it or nothing; missing folders are made."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except (OSError, ValueError) as error:
        _remove(aside)
        raise FileError(
            f"Cannot write {path} ({_reason(error)}). Name a folder that can be written, on a disk with room. "
            "What stood there before is unchanged."
        ) from error


def make_folder(path: Path) -> None:
    """Make a folder, and those that it is in; one that is there is left as it is."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"Cannot make the folder {path} ({_reason(error)}). Name another one.") from error


def append_lines(path: Path, text: str) -> None:
    """Add whole lines to a file. One that is cut short by a kill lacks its newline: readers leave it out."""
    try:
        with path.open("ab") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
    except (OSError, ValueError) as error:
        raise FileError(
            f"Cannot write {path} ({_reason(error)}). Make room on its disk, or write elsewhere."
        ) from error


def remove_begun(folder: Path) -> None:
    """Remove what killed writers began aside in a folder. Call it when nobody else writes there."""
    if folder.is_dir():
        for path in folder.iterdir():
            if ASIDE.fullmatch(path.name):
                _remove(path)


def read_bytes(path: Path) -> bytes:
    """All of a file; a `FileError` names it if it cannot be read."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise FileError(f"Cannot read {path} ({_reason(error)}).") from error


def read_text(path: Path) -> str:
    """The text of a file; a `FileError` names it if it cannot be read."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(f"Cannot read {path} ({error}).") from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; a `FileError` names it if it is damaged."""
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is damaged: it is not JSON ({error}).") from error
    if not isinstance(content, dict):
        raise FileError(f"{path} is damaged: it holds no JSON object.")
    return content


def write_json(path: Path, content: Mapping[str, Any] | list[Any]) -> None:
    """Write an object or a list as JSON, whole."""
    write_whole(path, json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def read_sealed(path: Path, *, remedy: str) -> dict[str, Any]:
    """What `write_sealed` wrote, without its digest; a file that was changed since is refused with a remedy."""
    content = read_json(path)
    if content.pop("digest", None) != _digest(content):
        raise FileError(f"{path} was changed since it was written: it does not match its digest. {remedy}")
    return content


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object as JSON with a digest of itself, whole."""
    write_json(path, {**content, "digest": _digest(content)})


def _digest(content: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical JSON: what a reader gets, with sorted keys and without spaces."""
    try:
        as_read = json.loads(json.dumps(content))
        return hashlib.sha256(json.dumps(as_read, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    except RecursionError:
        return "nested too deep to have been written"


def record_from(kind: type[Record], content: Mapping[str, Any]) -> Record:
    """A record of this kind from a JSON object with an entry for each field; other entries are passed over.

    Fields are records, tuples, plain values or None. Values are not checked: a digest vouches for what is in a file.
    """
    try:
        return _read_value(kind, content)
    except (KeyError, TypeError) as error:
        raise InvalidInputError(f"it holds no {kind.__name__} ({error}).") from error


def _read_value(kind: Any, value: Any) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):  # a type or None
        return None if value is None else _read_value(parts[0], value)
    if isinstance(kind, type) and is_dataclass(kind):
        if "ci" in value and "ci" not in (hints := get_type_hints(kind)) and {"low", "high"} <= hints.keys():
            value = {**value, "low": value["ci"] and value["ci"][0], "high": value["ci"] and value["ci"][1]}
        hints = get_type_hints(kind).items()
        return kind(**{name: _read_value(hint, value[name]) for name, hint in hints if name in value})
    if origin is tuple:
        return tuple(_read_value(parts[0], entry) for entry in value)  # whose entries are all of one type
    return value


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]], about: Mapping[str, Any]) -> None:
    """Write named arrays and a JSON object about them into one safetensors file, whole."""
    from safetensors.numpy import save

    in_order = {name: np.require(array, requirements="C") for name, array in arrays.items()}
    text = json.dumps(about, allow_nan=False, sort_keys=True)
    write_whole(path, save(in_order, {"about": text, "checksum": _checksum(in_order, text)}))


def tensors_checksum(arrays: Mapping[str, np.ndarray[Any, Any]], about: Mapping[str, Any]) -> str:
    """The checksum that `write_tensors` puts into a file of these."""
    return _checksum(arrays, json.dumps(about, allow_nan=False, sort_keys=True))


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """What `write_tensors` wrote; a file that differs from it by one bit is refused by name."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = read_bytes(path)
    if data[8:9] not in (b"{", b""):  # a safetensors file is 8 bytes of a length, then a JSON object
        kind, hint = "no safetensors file", ""
        if data[:2] == b"PK":
            kind = "a zip archive, as stable-baselines3 saves its models"
            hint = " A model of that library is loaded there and then evaluated: elbert.evaluate(model, env=...)."
        raise FileError(
            f"{path} is not a file of elbert's: it is {kind}. Give one that `Agent.save` or a run wrote.{hint}"
        )
    try:
        arrays = load(data)
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])["__metadata__"]
        about, checksum = header["about"], header["checksum"]
        content = json.loads(about)
    except KeyError as error:
        raise FileError(
            f"{path} is not a file of elbert's: its header has no {error}. Give one that `Agent.save` or a run wrote."
        ) from error
    except (SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise FileError(f"{path} is damaged: {error}. Take another copy of it.") from error
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
    # The folder itself may be out of reach: then nothing of ours is there.
    with contextlib.suppress(OSError, ValueError):
        path.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
