"""Read the rows of `index.sqlite` as columns, in bounded memory."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import numpy as np

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage import metadata

__all__ = ["index_rows"]

_SAMPLES = 8192  # so many are read at a time


def index_rows(database: str, info: metadata.Info) -> Iterator[tuple[Any, ...]]:
    """Read the samples and parts of an index, some thousand samples at a time, in the order of the dataset.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as made:
        ...     list(index_rows(made.name, metadata.Info({})))
        []

    Args:
        database: A local `index.sqlite`.
        info: What the info file says.

    Yields:
        The arguments of `KeyTableWriter.add`.

    Raises:
        DatasetError: The index and the info file are out of step.
        sqlite3.DatabaseError: The index is damaged.
    """
    connection = sqlite3.connect(f"file:{quote(os.path.abspath(database))}?mode=ro&immutable=1", uri=True)
    with closing(connection):
        connection.text_factory = bytes  # keys are not always UTF-8
        for shard, (name, count) in enumerate(info.shard_counts.items()):
            found = connection.execute("SELECT count(*) FROM samples WHERE tar_file_id = ?", (shard,)).fetchone()[0]
            if found != count:
                raise DatasetError(
                    f"index.sqlite has {found} samples of the shard {name!r}, {metadata.META_FOLDER}/.info.json says "
                    f"{count}: the files are out of step; prepare the dataset again"
                )
            for first in range(0, count, _SAMPLES):
                yield _chunk(connection, shard, first, min(count, first + _SAMPLES))


def _chunk(connection: sqlite3.Connection, shard: int, first: int, stop: int) -> tuple[Any, ...]:
    where = "WHERE tar_file_id = ? AND sample_index >= ? AND sample_index < ? ORDER BY tar_file_id, sample_index"
    samples = connection.execute(
        f"SELECT sample_index, sample_key, byte_offset, byte_size FROM samples {where}", (shard, first, stop)
    ).fetchall()
    # This order is that of an index which holds all that is asked for; rows of a sample stand in the order of names.
    parts = connection.execute(
        "SELECT sample_index, part_name, content_byte_offset, content_byte_size FROM sample_parts "
        f"{where}, part_name, content_byte_offset",
        (shard, first, stop),
    ).fetchall()
    numbers, keys, offsets, sizes = zip(*samples, strict=True)
    if numbers != tuple(range(first, stop)):
        raise DatasetError(f"index.sqlite does not number the samples of shard {shard} in turn; prepare it again")
    owners, names, starts, lengths = zip(*parts, strict=True) if parts else ((), (), (), ())
    counts = np.bincount(np.array(owners, np.int64) - first, minlength=stop - first)
    different = {name: number for number, name in enumerate(sorted(set(names)))}
    texts = [name.decode("utf-8", "surrogateescape") for name in different]
    name_numbers = np.fromiter(map(different.__getitem__, names), np.int64, len(names))
    return shard, keys, offsets, sizes, counts, texts, name_numbers, starts, lengths
