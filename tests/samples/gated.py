"""A remote store whose reads wait until a test lets them go, and are counted."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

import energon_nodes as en


class GatedFileSystem(MemoryFileSystem):
    """Files in memory; one that is closed cannot be read until it is opened."""

    protocol = "gated"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    closed: ClassVar[set[str]] = set()
    reads: ClassVar[list[str]] = []
    changed: ClassVar[threading.Condition] = threading.Condition()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return MemoryFileSystem._strip_protocol(path.removeprefix("gated://"))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        name = path.rpartition("/")[2]
        with self.changed:
            self.reads.append(name)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: name not in self.closed, 30)
        return super().cat_file(path, start, end, **kwargs)


fsspec.register_implementation("gated", GatedFileSystem, clobber=True)


class Gates:
    """A store of the files a.txt to z.txt, each with its name as content, and the gates in front of them."""

    def __init__(self, folder: str) -> None:
        GatedFileSystem.closed.clear()
        GatedFileSystem.reads.clear()
        fsspec.filesystem("gated").pipe({f"/{folder}/{chr(97 + n)}.txt": f"text {n}".encode() for n in range(26)})
        self.store = en.store(f"gated://{folder}", decode=True)

    def close(self, *names: str) -> None:
        GatedFileSystem.closed.update(names)

    def open(self, *names: str) -> None:
        with GatedFileSystem.changed:
            GatedFileSystem.closed.difference_update(names)
            GatedFileSystem.changed.notify_all()

    def wait_for_read(self, name: str) -> None:
        """Wait until somebody stands in front of a gate, or went through."""
        with GatedFileSystem.changed:
            assert GatedFileSystem.changed.wait_for(lambda: name in self.reads, 30)

    @property
    def reads(self) -> list[str]:
        return GatedFileSystem.reads
