"""What a run that writes a dataset leaves for the next one, if it does not come to its end."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from energon_nodes.core.errors import DatasetError, StateError
from energon_nodes.core.spelling import listed
from energon_nodes.loading.entries import plain_dumps, plain_loads
from energon_nodes.storage import paths
from energon_nodes.storage.metadata import META_FOLDER
from energon_nodes.storage.remote import ask
from energon_nodes.storage.writing import TEMPORARY, make_folder, remove, write_bytes

__all__ = ["WriteFolder", "WriteState"]

_VERSION = 1
_FOLDER = "write"


@dataclass
class WriteState:
    """Say how far a run has come: after each finished shard, and nowhere between.

    Args:
        settings: What shapes the bytes; the next run must say the same.
        shards: Name, number of samples and size of each finished shard.
        parts: How many samples have each part.
        loader: The state of the loader behind the last sample of the last finished shard.
        keyed: Whether samples have keys of their own; None before the first one.
        done: Whether all shards are written.

    Example:
        >>> WriteState({}, [("shard_000000.tar", 100, 10240)]).samples
        100
    """

    settings: dict[str, Any]
    shards: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    parts: dict[str, int] = field(default_factory=dict[str, int])
    loader: dict[str, Any] = field(default_factory=dict[str, Any])
    keyed: bool | None = None
    done: bool = False

    @property
    def samples(self) -> int:
        """How many samples lie in finished shards."""
        return sum(samples for _, samples, _ in self.shards)


class WriteFolder:
    """Look after the folder that a dataset is written to, and the state in it.

    Args:
        root: The folder, a path or URL.

    Example:
        >>> folder = WriteFolder("memory://written")
        >>> folder.save(WriteState({"a": 1}, done=True)), folder.read().done
        (None, True)
        >>> folder.clear(), folder.read()
        (None, None)
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._meta = paths.join(root, META_FOLDER)
        self._folder = paths.join(self._meta, _FOLDER)
        self._state = paths.join(self._folder, "state")

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep other programs of this machine from writing to the folder, until the block ends."""
        make_folder(self._folder)
        if paths.is_url(self.root):
            yield
            return
        handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DatasetError(f"another program is writing to {self.root}; wait until it has ended") from None
            yield
        finally:
            os.close(handle)

    def read(self) -> WriteState | None:
        """Return what an earlier run has left, None where there is nothing.

        Raises:
            DatasetError: It cannot be read.
        """
        try:
            values = plain_loads(paths.read_bytes(self._state))
            if values.pop("version") == _VERSION and values.keys() == {each.name for each in fields(WriteState)}:
                return WriteState(**values)
        except FileNotFoundError:
            return None
        except (StateError, KeyError, AttributeError, TypeError) as error:
            raise DatasetError(f"{self._state} is damaged ({error}): empty the folder {self.root}") from error
        raise DatasetError(f"{self._state} was written by another release: empty the folder {self.root}")

    def save(self, state: WriteState) -> None:
        """Write a state in the place of the one before."""
        write_bytes(self._state, plain_dumps({"version": _VERSION, **asdict(state)}))

    def check(self, state: WriteState, settings: Mapping[str, Any]) -> None:
        """See to it that a state is that of the same run, and that its shards are there.

        Raises:
            DatasetError: Settings differ, or a shard is gone or of another size.
        """
        for name in sorted(settings.keys() | state.settings.keys()):
            before, now = state.settings.get(name), settings.get(name)
            if before != now:
                raise DatasetError(
                    f"{self.root} holds a dataset that was begun with {name}={before!r}, and this call says "
                    f"{name}={now!r}: say the same to go on with it, or empty the folder"
                )
        for name, _, size in state.shards:
            path = paths.join(self.root, name)
            found = paths.size(path) if paths.exists(path) else None
            if found != size:
                what = "is gone" if found is None else f"has {found} bytes in place of {size}"
                raise DatasetError(
                    f"{path}, which an earlier run has finished, {what}: empty the folder to start afresh"
                )

    def refuse_others(self, ours: frozenset[str], meta: bool) -> None:
        """See to it that nothing else is in the folder, and remove what a crash has left half written.

        Args:
            ours: The names of shards that may be there.
            meta: Whether there may be metadata.

        Raises:
            DatasetError: There is something else.
        """
        others = [name for name in _names(self.root) if name not in ours and name != META_FOLDER]
        if not meta:
            others += [f"{META_FOLDER}/{name}" for name in _names(self._meta) if name != _FOLDER]
        left = [name for name in others if name.startswith(TEMPORARY)]
        others = sorted(set(others) - set(left))
        if others:
            raise DatasetError(
                f"{self.root} is not empty: it has {listed(others[:5])}, and a dataset is written to a folder of its "
                "own: name another one, or empty it"
            )
        for name in left:
            remove(paths.join(self.root, name))

    def save_keys(self, shard: int, hashes: NDArray[np.uint64]) -> None:
        """Keep the hashes of the keys of a shard for the next run."""
        write_bytes(self._keys(shard), hashes.astype("<u8").tobytes())

    def read_keys(self, shard: int) -> NDArray[np.uint64]:
        """Return the hashes of the keys of a finished shard; those of numbered samples were not kept."""
        try:
            return np.frombuffer(paths.read_bytes(self._keys(shard)), "<u8")
        except FileNotFoundError:
            return np.zeros(0, "<u8")

    def clear(self) -> None:
        """Remove the state, its own file last."""
        for name in _names(self._folder):
            if name != "state":
                remove(paths.join(self._folder, name))
        remove(self._state)
        self.drop_empty()

    def drop_empty(self) -> None:
        """Remove the folder of the state if nothing is in it, and then that of the metadata."""
        if not paths.is_url(self.root):
            for folder in (self._folder, self._meta):
                with suppress(OSError):  # it holds something, or is gone
                    os.rmdir(folder)

    def _keys(self, shard: int) -> str:
        return paths.join(self._folder, f"keys-{shard:06d}")


def _names(folder: str) -> list[str]:
    """Return the names in a folder, none where it does not exist."""
    if not paths.is_url(folder):
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []
    try:
        found = ask(folder, "list", lambda fs, name: fs.ls(name, detail=False))
    except FileNotFoundError:
        return []
    return sorted({str(name).rstrip("/").rpartition("/")[2] for name in found})
