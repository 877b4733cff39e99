"""The scan of a shard as it was before it was fast: one header after the other, to compare with."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from energon_nodes.storage.scan import Problem, read_contents, refuse_compressed
from energon_nodes.storage.tar import BLOCK, NO_END, TarError, next_member, split_name


class Exact(NamedTuple):
    """What a scan finds: the parts of each whole sample are (name, first byte, bytes)."""

    offsets: list[int]
    problems: dict[int, Problem]
    keys: list[str]
    parts: list[list[tuple[str, int, int]]]


def exact_scan(path: Path) -> Exact:
    """Walk the headers one by one."""
    data = path.read_bytes()
    size = len(data)
    starts: list[int] = []
    keys: list[str] = []
    parts: list[list[tuple[str, int, int]]] = []
    offset = 0
    problem: Problem | None = None
    half: bool | None = None

    def read(at: int, length: int) -> bytes:
        return data[at : at + length]

    try:
        refuse_compressed(read(0, BLOCK))
        while True:
            member = next_member(read, offset)
            if member.kind == "end":
                break
            found = split_name(member.name) if member.kind != "other" else None
            if member.payload + member.size > size:
                half = found is not None and bool(keys) and found[0] == keys[-1]
                where = f"inside {member.name!r} of {member.size} bytes"
                raise TarError(member.payload, f"the file ends at byte {size}, {where}")
            if found is not None:
                if not keys or found[0] != keys[-1]:
                    starts.append(member.start)
                    keys.append(found[0])
                    parts.append([])
                parts[-1].append((found[1], member.payload, member.size))
            offset = member.stop
            if offset > size:
                raise TarError(size, NO_END)
    except TarError as error:
        problem = (error.offset, error.reason)
        if half is None:
            half = len(keys) > 1 and sorted(name for name, *_ in parts[-1]) != sorted(name for name, *_ in parts[-2])
        if half:
            keys.pop()
            parts.pop()
            offset = starts.pop()
    counts = Counter(keys)
    problems = {
        number: (
            starts[number],
            f"the key {key!r} stands in {counts[key]} places of the shard, with other samples in between "
            "(interleaved or repeated files); write the files sorted by key, each key once",
        )
        for number, key in enumerate(keys)
        if counts[key] > 1
    }
    offsets = [*starts, offset]
    if problem is not None:
        problems[len(starts)] = problem
        offsets.append(max(size, offset))
    return Exact(offsets, problems, keys, parts)


def quick_scan(path: Path) -> Exact:
    """Return what the library finds, in the same form."""
    contents = read_contents(str(path))
    bounds = contents.part_starts.tolist()
    rows = list(
        zip(
            [contents.part_names[name] for name in contents.names.tolist()],
            contents.starts.tolist(),
            contents.sizes.tolist(),
            strict=True,
        )
    )
    parts = [rows[start:stop] for start, stop in pairwise(bounds)]
    return Exact(contents.index.offsets.tolist(), contents.index.problems, contents.keys, parts)
