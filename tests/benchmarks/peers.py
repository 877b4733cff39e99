"""The peers on data T, each at the quickest setting that we found and that still delivers txt and json as bytes.

What was tried and not taken stands beside each setting. All read one process, no workers, from a warm page cache.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import data, peer_data
from tests.benchmarks.streams import Stream, key_number


def litdata(root: Path, whole_chunks: bool) -> Stream:
    """Read LitData chunks in place.

    The default shuffles blocks of 256 samples and then within each: the quickest, and very local. `whole_chunks`
    decodes a chunk of 5,000 at a time and shuffles all of it. Windows between the two were slower than either.
    """
    return litdata_stream(peer_data.litdata(root, pickled=False), whole_chunks, lambda sample: (int(sample[0]),))


def litdata_pickled(root: Path) -> Stream:
    """Read LitData chunks of pickled samples and leave them pickled: less than the others do, and the quickest."""
    return litdata_stream(peer_data.litdata(root, pickled=True), False, lambda sample: key_number(pickle.loads(sample)))


def litdata_stream(folder: Path, whole_chunks: bool, numbers: Callable[[Any], Iterable[int]]) -> Stream:
    from litdata import StreamingDataset

    wide = {"batch_decode": "all", "item_shuffle_window": "full"} if whole_chunks else {}
    dataset = StreamingDataset(str(folder), shuffle=True, **wide)
    # A generator, because every call of iter() on the dataset starts the pass again.
    return Stream(lambda: (sample for sample in dataset), numbers)


def grain(root: Path, batch: int) -> Stream:
    """Read ArrayRecord files through Grain in a global shuffle, sample by sample or in batches.

    No read threads: with 2, 4 and 16 (the default) it was 2 to 3 times slower on records as small as these.
    """
    import grain as gr

    files = sorted(str(path) for path in peer_data.array_record(root).glob("*.array_record"))
    dataset = gr.MapDataset.source(gr.sources.ArrayRecordDataSource(files)).seed(0).shuffle().map(pickle.loads)
    options = gr.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    if batch == 1:
        return Stream(lambda: iter(dataset.to_iter_dataset(options)))
    batches = dataset.batch(batch, batch_fn=list)
    return Stream(lambda: iter(batches.to_iter_dataset(options)), key_numbers, batch)


def mosaicml(root: Path) -> Stream:
    """Read MDS shards with the default shuffle (`py1e`), which was quicker than `py1s` and `naive`."""
    from streaming import StreamingDataset

    dataset = StreamingDataset(local=str(peer_data.mds(root)), shuffle=True, batch_size=32)
    return Stream(lambda: iter(dataset))


def webdataset(root: Path, size: int) -> Stream:
    """Read the tars with webdataset: shards in random order, then a shuffle buffer."""
    from webdataset import WebDataset

    shards = [str(path) for path in data.shards_of(data.text(root))]
    return Stream(lambda: iter(WebDataset(shards, shardshuffle=len(shards)).shuffle(size, initial=size)))


def energon(root: Path, batch: int | None, buffer: int | None) -> Stream:
    """Read the prepared tars with Megatron-Energon, undecoded, sequences of 100 samples.

    `parallel_shard_iters=1` was a third quicker than the default of 16, and a shuffle buffer of 1,000 then mixes as
    well as the 16 do. Batches stay lists of samples: nothing is collated.
    """
    import megatron.energon as me

    from tests.benchmarks.energon_task import ListBatches

    worker_config = me.WorkerConfig(rank=0, world_size=1, num_workers=0)
    dataset = me.get_train_dataset(
        str(data.text(root)),
        worker_config=worker_config,
        batch_size=batch,
        shuffle_buffer_size=buffer,
        max_samples_per_sequence=100,
        parallel_shard_iters=1,
        task_encoder=ListBatches(),
        repeat=False,
    )
    loader = me.get_loader(dataset)
    if batch is None:
        return Stream(lambda: iter(loader), lambda sample: (int(sample.__key__),))
    return Stream(lambda: iter(loader), lambda samples: [int(sample.__key__) for sample in samples], batch)


def torchdata(root: Path) -> Stream:
    """Read single samples in a global shuffle with what torchdata has: a sampler and a mapper over `.tar.idx`.

    One pread and a header walk per sample. A ParallelMapper with threads was slower.
    """
    from torch.utils.data import RandomSampler
    from torchdata.nodes import Loader, Mapper, SamplerWrapper

    read = reader_by_number(data.shards_of(data.text(root)))
    sampler = RandomSampler(range(data.TEXT_SAMPLES))
    loader = Loader(Mapper(SamplerWrapper(sampler), read))
    return Stream(lambda: iter(loader))


def key_numbers(samples: list[dict[str, Any]]) -> list[int]:
    return [int(sample["__key__"]) for sample in samples]


def reader_by_number(shards: list[Path]) -> Callable[[int], dict[str, str | bytes]]:
    """Return a function that reads one sample, given its number."""
    files = [os.open(shard, os.O_RDONLY) for shard in shards]
    places: list[tuple[int, int, int]] = []
    for file, shard in zip(files, shards, strict=True):
        offsets = np.fromfile(shard.with_suffix(".tar.idx"), dtype="<u8").tolist()
        places.extend((file, start, end - start) for start, end in pairwise(offsets))

    def read(number: int) -> dict[str, str | bytes]:
        file, start, size = places[number]
        return dict(members(os.pread(file, size, start)))

    return read


def members(block: bytes) -> Iterator[tuple[str, str | bytes]]:
    """Yield the key and the parts of the one sample in `block`."""
    position = 0
    while position < len(block):
        key, _, part = block[position : position + 100].rstrip(b"\0").decode().partition(".")
        size = int(block[position + 124 : position + 135], 8)
        if position == 0:
            yield "__key__", key
        yield part, block[position + 512 : position + 512 + size]
        position += 512 + (size + 511) // 512 * 512
