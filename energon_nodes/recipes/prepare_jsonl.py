"""Prepare JSON Lines: write the index that gives every record its place."""

from __future__ import annotations

import os

from energon_nodes.recipes.prepared import Prepared
from energon_nodes.storage import paths
from energon_nodes.storage.discovery import PathLike
from energon_nodes.storage.jsonl_index import RecordScan, line_index_path, write_line_index
from energon_nodes.storage.jsonl_set import find_line_files

__all__ = ["prepare_jsonl"]

_SHOWN = 10


def prepare_jsonl(path: PathLike, *, progress: bool | None = None) -> Prepared:
    r"""Write the index of a JSON Lines file, or of all in a folder, as Megatron-Energon does.

    Nothing is parsed. Lines that do not begin and end with the braces of an object get an entry as the others, and are
    named in the warnings: reading fails for them alone. Megatron-Energon prepares no file that has such lines.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "a.jsonl")
        ...     _ = path.write_text('{"a": 1}\n{"b": 2}\n')
        ...     prepared = prepare_jsonl(path)
        ...     (path.parent / "a.jsonl.idx").stat().st_size
        24
        >>> prepared.samples, prepared.shards, prepared.written
        (2, {'a.jsonl': 2}, ('a.jsonl.idx',))

    Args:
        path: The file, a folder of `*.jsonl`, or a pattern; local or a URL.
        progress: Whether to show how many bytes have been looked through; None: if the standard error is a terminal.

    Returns:
        What was found: the records of each file as its samples, `json` as their only part, no splits.

    Raises:
        DatasetError: There is no file, or one is compressed.
        OSError: A file cannot be read, or the index not be written.
    """
    root, names = find_line_files(path)
    files = [paths.join(root, name) for name in names]
    sizes = [paths.size(file) for file in files]
    scans: list[RecordScan] = []
    warnings: list[str] = []
    from tqdm import tqdm  # not needed by those who only read

    disable = None if progress is None else not progress  # None: shown in a terminal
    with tqdm(total=sum(sizes), desc="indexing", unit="B", unit_scale=True, disable=disable, leave=False) as bar:
        for name, file in zip(names, files, strict=True):
            scan = write_line_index(file, bar.update)
            scans.append(scan)
            warnings += _warnings(name, scan)
    if not any(scan.records for scan in scans):
        warnings.append(f"{os.fspath(path)} has no records")
    records = sum(scan.records for scan in scans)
    return Prepared(
        path=os.fspath(path),
        samples=records,
        shards={name: scan.records for name, scan in zip(names, scans, strict=True)},
        splits={},
        samples_per_split={},
        parts={"json": records},
        bytes=sum(sizes),
        warnings=tuple(warnings),
        written=tuple(line_index_path(name) for name in names),
    )


def _warnings(name: str, scan: RecordScan) -> list[str]:
    if not scan.odd_count:
        return []
    shown = ", ".join(f"line {odd.line} (sample {odd.record}, byte {odd.offset})" for odd in scan.odd[:_SHOWN])
    more = scan.odd_count - _SHOWN
    return [
        f"{name}: {scan.odd_count:,} of {scan.records:,} lines are no JSON objects, as they do not begin and end with "
        f"braces: {shown}{f' and {more:,} more' if more > 0 else ''}; correct them, or skip them with on_error='skip'"
    ]
