"""Write data T in the formats of the peers, once; every record holds the same key, txt and json."""

from __future__ import annotations

import pickle
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks import data

Record = dict[str, str | bytes]


def array_record(root: Path) -> Path:
    """Return 20 ArrayRecord files of pickled samples, uncompressed and one record a group: the quickest to read."""

    def write(folder: Path) -> None:
        from array_record.python.array_record_module import ArrayRecordWriter

        for shard in data.shards_of(data.text(root)):
            writer = ArrayRecordWriter(str(folder / f"{shard.stem}.array_record"), "group_size:1,uncompressed")
            for sample in records(shard):
                writer.write(pickle.dumps(sample, 5))
            writer.close()

    return data.made(root / "array_record", write)


def litdata(root: Path, pickled: bool) -> Path:
    """Return LitData chunks of 5,000 samples, as in a tar of data T; pickled ones are one opaque leaf each."""

    def write(folder: Path) -> None:
        from litdata import optimize

        options = {"chunk_size": 5_000, "num_workers": 1, "start_method": "fork", "verbose": False}
        optimize(
            fn=pickles if pickled else tuples, inputs=data.shards_of(data.text(root)), output_dir=str(folder), **options
        )

    return data.made(root / ("litdata_pickled" if pickled else "litdata"), write)


def mds(root: Path) -> Path:
    """Return the MDS shards of MosaicML Streaming, uncompressed."""

    def write(folder: Path) -> None:
        from streaming import MDSWriter

        with MDSWriter(columns={"__key__": "str", "txt": "bytes", "json": "bytes"}, out=str(folder)) as writer:
            for shard in data.shards_of(data.text(root)):
                for sample in records(shard):
                    writer.write(sample)

    return data.made(root / "mds", write)


def tuples(shard: Path) -> Iterator[tuple[str | bytes, ...]]:
    """Yield the samples of a shard as tuples, which LitData reads a third faster than dicts."""
    for sample in records(shard):
        yield sample["__key__"], sample["txt"], sample["json"]


def pickles(shard: Path) -> Iterator[bytes]:
    for sample in records(shard):
        yield pickle.dumps(sample, 5)


def records(shard: Path) -> Iterator[Record]:
    sample: Record = {}
    with tarfile.open(shard) as archive:
        for member in archive:
            key, _, part = member.name.partition(".")
            if sample and sample["__key__"] != key:
                yield sample
                sample = {}
            sample["__key__"] = key
            sample[part] = archive.extractfile(member).read()  # pyright: ignore[reportOptionalMemberAccess]
    yield sample
