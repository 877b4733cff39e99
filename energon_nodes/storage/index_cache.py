"""Keep the index of shards that were never prepared in a folder of small files.

An entry is the offsets as in a `.tar.idx` file, so that slices of it can be read in the same way, then the
problems as JSON, then the number of offsets in 8 bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from typing import Any, cast

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import paths
from energon_nodes.storage.scan import Problem, ShardIndex

__all__ = ["entry_path", "read_entry", "write_entry"]


def entry_path(folder: str, shard: str, version: tuple[int, int]) -> str:
    """Return the file of a shard's index: another one for another path, size or time of change.

    Example:
        >>> entry_path("/cache", "/data/x/0.tar", (10240, 7)) == entry_path("/cache", "/data/y/0.tar", (10240, 7))
        False

    Args:
        folder: The cache folder.
        shard: The path or URL of the shard.
        version: Its size and time of change, see `paths.identity`.

    Returns:
        The path of the file.
    """
    name = shard if paths.is_url(shard) else os.path.abspath(shard)
    text = f"{name}\0{version[0]}\0{version[1]}"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    return os.path.join(folder, f"{os.path.basename(name)}-{digest}.idx")


def write_entry(path: str, index: ShardIndex) -> None:
    """Write an entry so that other processes see all of it or nothing.

    Example:
        >>> import numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_entry(f"{folder}/0.idx", ShardIndex(np.array([0, 1024]), {0: (512, "damaged")}))
        ...     read_entry(f"{folder}/0.idx")
        (1, {0: (512, 'damaged')})

    Args:
        path: The file.
        index: What it holds.

    Raises:
        OSError: It cannot be written.
    """
    problems = json.dumps([[number, *problem] for number, problem in index.problems.items()]).encode()
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".partial-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(index.offsets.astype("<i8").tobytes())
            file.write(problems)
            file.write(len(index.offsets).to_bytes(8, "little"))
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def read_entry(path: str) -> tuple[int, dict[int, Problem]]:
    """Read what an entry says beside the offsets.

    Args:
        path: The file.

    Returns:
        The number of samples, and the problems by sample number.

    Raises:
        DatasetError: It is damaged.
    """
    try:
        size = paths.size(path)
        length = int.from_bytes(paths.read_once(path, [size - 8], [size])[0], "little")
        text = paths.read_once(path, [8 * length], [size - 8])[0]
        listed = cast("list[Any]", json.loads(text))
        return length - 1, {int(number): (int(offset), str(reason)) for number, offset, reason in listed}
    except (OSError, ValueError, OverflowError) as error:
        raise DatasetError(f"the cached index {path} is damaged ({error}): delete it, and it is made again") from error
