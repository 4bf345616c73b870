"""Where runs are kept while several machines train: a folder that all of them see, or an address of fsspec.

A worker trains in a folder of its own machine. With an address, what is in the folder goes there after every
checkpoint, file by file, the manifest last: whoever takes over finds a state from which a run goes on.
"""

import contextlib
import json
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from filelock import FileLock, Timeout

from elbert.errors import ElbertError
from elbert.experiments.run_folder import LOCK, RunFolder
from elbert.files import ASIDE, FileError, read_bytes, write_whole
from elbert.tables import visible

MANIFEST = "manifest.json"
FOR_TRAINING = ("checkpoints", "candidates")
"""Folders that only a training needs, not who reads its results."""
SECONDS_BETWEEN_SENDS = 2.0
PAUSES = (1.0, 5.0, 20.0)
"""Seconds between the tries to send what a training ended with: a store may be away for a moment."""
SCRATCH = "elbert-run-"


class FolderStore:
    """The folder itself: every node sees it, and nothing has to be sent."""

    address = ""

    @contextlib.contextmanager
    def kept(self, name: str, folder: Path) -> Iterator[Path]:
        """The folder to train in."""
        if not folder.is_dir():
            raise FileError(
                f"This machine does not see the folder {folder}. Give an --out that all nodes share, or an address "
                "that all of them reach: --store s3://bucket/study."
            )
        yield folder / name

    def fetch_results(self, name: str, folder: Path) -> bool:
        """Nothing to fetch: whatever there is, is here."""
        del name, folder
        return False

    def manifest(self, name: str, folder: Path) -> dict[str, Any] | None:
        """How far a run is; None if it has not begun."""
        path = folder / name
        return RunFolder(path).manifest if (path / MANIFEST).exists() else None


@dataclass(frozen=True)
class AddressStore:
    """An address of fsspec, such as s3://bucket/study or file:///shared/study."""

    address: str

    def __post_init__(self) -> None:
        self._filesystem()  # refuses now what would fail later, on every node

    def _filesystem(self) -> tuple[Any, PurePosixPath]:
        try:
            import fsspec
        except ImportError as error:
            raise ElbertError(
                "--store needs fsspec, and the package of the place itself (s3fs for s3://). Install it: "
                "pip install 'elbert[store]'."
            ) from error
        try:
            filesystem, root = fsspec.core.url_to_fs(self.address)
        except (ImportError, ValueError) as error:
            raise ElbertError(f"The store {self.address!r} cannot be used ({error}).") from error
        return filesystem, PurePosixPath(root)

    @contextlib.contextmanager
    def kept(self, name: str, folder: Path) -> Iterator[Path]:
        """A folder of this machine to train in, with what the store has; what is written there is sent to the store."""
        del folder
        with _scratch() as scratch:
            path = scratch / name
            mirror = _Mirror(self, name, path)
            mirror.fetch()
            stop = threading.Event()
            sender = threading.Thread(target=mirror.keep_sending, args=(stop,), daemon=True)
            sender.start()
            try:
                yield path
            finally:
                stop.set()
                sender.join()
                mirror.send_at_last()

    def fetch_results(self, name: str, folder: Path) -> bool:
        """Bring a run here without what only its training needs; whether the store has it."""
        return _Mirror(self, name, folder / name).fetch(without=FOR_TRAINING)

    def manifest(self, name: str, folder: Path) -> dict[str, Any] | None:
        """How far a run is; None if it has not begun."""
        del folder
        filesystem, root = self._filesystem()
        try:
            return json.loads(filesystem.cat_file(f"{root}/{name}/{MANIFEST}"))
        except Exception:  # it is not there yet, or cannot be reached now: the next look may tell
            return None


Store = FolderStore | AddressStore
NO_STORE = FolderStore()


def open_store(address: str | None) -> Store:
    """The store at an address; the folder of the study itself if there is none."""
    return NO_STORE if address is None else AddressStore(address)


class _Mirror:
    """A run in a folder of this machine and its copy in a store."""

    def __init__(self, store: AddressStore, name: str, path: Path) -> None:
        self.filesystem, root = store._filesystem()
        self.address, self.root, self.path = store.address, root / name, path
        self._sent: dict[str, tuple[int, int]] = {}  # time and size of each file as it was sent

    def fetch(self, *, without: tuple[str, ...] = ()) -> bool:
        """Bring files here, the manifest last; whether the store has this run."""
        root = str(self.root)
        try:
            self.filesystem.invalidate_cache()
            if not self.filesystem.exists(f"{root}/{MANIFEST}"):
                return False
            found = [str(path)[len(root) + 1 :] for path in self.filesystem.find(root)]
            for name in sorted(found, key=_manifest_last):
                if any(part in ("", ".", "..") or "\\" in part for part in name.split("/")):
                    raise FileError(f"{self.address} holds a file whose name leads elsewhere: {visible(name)}.")
                if name.split("/")[0] in without or ASIDE.fullmatch(name.split("/")[-1]):
                    continue
                with contextlib.suppress(FileNotFoundError):  # an old checkpoint that was just removed
                    write_whole(self.path / name, self.filesystem.cat_file(f"{root}/{name}"))
                    self._sent[name] = self._state(name)
        except FileError:
            raise
        except Exception as error:  # of a network, or of whatever filesystem it is
            raise FileError(f"Cannot read {self.address} ({type(error).__name__}: {error}).") from error
        return True

    def keep_sending(self, stop: threading.Event) -> None:
        """Send what changed whenever there is a new manifest, until told to stop."""
        while not stop.wait(SECONDS_BETWEEN_SENDS):
            if (self.path / MANIFEST).exists() and self._state(MANIFEST) != self._sent.get(MANIFEST):
                try:
                    self.send()
                except FileError as error:  # the next checkpoint is another chance, and the end the last
                    logging.getLogger("elbert").warning("%s", error)

    def send(self) -> None:
        """Send what changed; the manifest last, as it was before, and then remove what is no longer here."""
        if not (self.path / MANIFEST).exists():  # it has not begun: nothing could go on from it
            return
        known, manifest = self._state(MANIFEST), read_bytes(self.path / MANIFEST)
        files = [path.relative_to(self.path).as_posix() for path in self.path.rglob("*") if path.is_file()]
        names = [name for name in files if not name.endswith(LOCK) and not ASIDE.fullmatch(name.split("/")[-1])]
        try:
            for name in names:
                if name != MANIFEST and (state := self._state(name)) != self._sent.get(name):
                    with contextlib.suppress(FileNotFoundError):  # an old checkpoint that was just removed
                        self._write(name, (self.path / name).read_bytes())
                        self._sent[name] = state
            self._write(MANIFEST, manifest)
            for name in set(self._sent) - set(names):
                with contextlib.suppress(FileNotFoundError):  # somebody else removed it
                    self.filesystem.rm_file(f"{self.root}/{name}")
                del self._sent[name]
        except OSError as error:
            raise FileError(f"Cannot write {self.address} ({error}).") from error
        except Exception as error:  # of a network, or of whatever filesystem it is
            raise FileError(f"Cannot write {self.address} ({type(error).__name__}: {error}).") from error
        self._sent[MANIFEST] = known

    def send_at_last(self) -> None:
        """Send what a training ended with, and try again if the store is away for a moment."""
        for pause in PAUSES:
            try:
                return self.send()
            except FileError as error:
                logging.getLogger("elbert").warning("%s It is tried again in %g s.", error, pause)
                time.sleep(pause)
        return self.send()

    def _write(self, name: str, content: bytes) -> None:
        """Write a file whole: stores of objects do so by themselves, a local disk is written aside."""
        path = f"{self.root}/{name}"
        protocols = self.filesystem.protocol
        if "file" in ((protocols,) if isinstance(protocols, str) else protocols):
            write_whole(Path(path), content)
        else:
            self.filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
            self.filesystem.pipe_file(path, content)

    def _state(self, name: str) -> tuple[int, int]:
        try:
            found = (self.path / name).stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_mtime_ns, found.st_size


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A temporary folder, removed at the end; whoever comes next removes it for a process that was killed."""
    everyone = Path(tempfile.gettempdir())
    for lock in everyone.glob(f"{SCRATCH}*.lock"):
        with contextlib.suppress(Timeout, OSError), FileLock(lock, timeout=0):  # nobody holds it any more
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink()
    with tempfile.TemporaryDirectory(prefix=SCRATCH) as scratch:
        lock = Path(f"{scratch}.lock")
        try:
            with FileLock(lock):
                yield Path(scratch)
        finally:
            lock.unlink(missing_ok=True)


def _manifest_last(name: str) -> tuple[bool, str]:
    return name == MANIFEST, name
