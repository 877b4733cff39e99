"""A remote store that takes its time: an fsspec file system over local files that waits before each read."""

from __future__ import annotations

import time
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

LATENCY = 0.01  # seconds: an object store in the same region


class SlowFileSystem(LocalFileSystem):
    """Local files behind `slow://`; asking what is there costs nothing, a read costs `LATENCY`."""

    protocol = "slow"

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return LocalFileSystem._strip_protocol(str(path).removeprefix("slow://"))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        time.sleep(LATENCY)
        return super().cat_file(path, start, end, **kwargs)


def register() -> None:
    """Make `slow://` known in this process."""
    fsspec.register_implementation("slow", SlowFileSystem, clobber=True)
