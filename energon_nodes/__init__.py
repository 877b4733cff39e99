"""Stream samples from sharded storage, shape and mix them, and go on exactly where a run stopped.

Pipelines are chains of small stateful nodes on `torchdata.nodes`:

    >>> import energon_nodes as en
    >>> pipeline = en.items(range(10)).filter(lambda x: x % 2).map(str).batch(2)
    >>> next(pipeline)
    ['1', '3']
    >>> state = pipeline.state_dict()
    >>> next(pipeline), pipeline.reset(state), next(pipeline)
    (['5', '7'], None, ['5', '7'])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from energon_nodes.combinators.batch import Batch
from energon_nodes.combinators.blend import Blend, blend, blend_epochized, mix_batches
from energon_nodes.combinators.collect_garbage import CollectGarbage
from energon_nodes.combinators.concat import Concat, concat
from energon_nodes.combinators.epochize import Epochize
from energon_nodes.combinators.filter import Filter
from energon_nodes.combinators.flat_map import FlatMap
from energon_nodes.combinators.group_by import GroupBy
from energon_nodes.combinators.hangs import Hang
from energon_nodes.combinators.join import Join, join, joined
from energon_nodes.combinators.limit import Limit
from energon_nodes.combinators.log import Log
from energon_nodes.combinators.map import Map
from energon_nodes.combinators.pack import Pack
from energon_nodes.combinators.pack_to import PackTo
from energon_nodes.combinators.packing_strategies import pack_lengths
from energon_nodes.combinators.parallel_map import ParallelMap
from energon_nodes.combinators.prefetch import Prefetch
from energon_nodes.combinators.repeat import Repeat
from energon_nodes.combinators.shuffle import Shuffle
from energon_nodes.combinators.skip import Skip
from energon_nodes.combinators.slice_window import SliceWindow
from energon_nodes.combinators.sort_window import SortWindow
from energon_nodes.combinators.tap import Tap
from energon_nodes.combinators.watchdog import Watchdog
from energon_nodes.combinators.with_keys import WithKeys
from energon_nodes.combinators.zip import Zip
from energon_nodes.combinators.zip import zip_nodes as zip
from energon_nodes.core.encoders import register_encoder
from energon_nodes.core.errors import (
    DatasetError,
    DecodeError,
    EnergonNodesError,
    FatalSampleError,
    NoCookerError,
    NotInStoreError,
    RestoreError,
    SampleError,
    ShardError,
    SkipSample,
    StateError,
    TrustError,
    WatchdogError,
    WorkerError,
)
from energon_nodes.core.fields import buffer, scratch, shared, state, tuning
from energon_nodes.core.node import Node, add_verb, registered_nodes
from energon_nodes.core.restore import Buffer, ColumnBuffer, Key
from energon_nodes.core.share import Context
from energon_nodes.core.verbs import add_lazy_verb
from energon_nodes.sources.items import Items, items
from energon_nodes.sources.wrap import Wrap, wrap

if TYPE_CHECKING:
    from energon_nodes.loading.dataset import PipelineDataset
    from energon_nodes.loading.distributed import gather_state, scatter_state
    from energon_nodes.loading.loader import Loader
    from energon_nodes.loading.state import merge_states
    from energon_nodes.recipes.datasets import dataset
    from energon_nodes.recipes.lint import lint
    from energon_nodes.recipes.prepare import prepare
    from energon_nodes.recipes.prepare_media import PreparedMedia, prepare_media
    from energon_nodes.recipes.prepared import DuplicateKeysError, Prepared
    from energon_nodes.recipes.problems import Problem
    from energon_nodes.recipes.write import write
    from energon_nodes.samples.cache_pool import CachePool, cache_pool
    from energon_nodes.samples.collate import Collate, collate
    from energon_nodes.samples.concat_tokens import ConcatTokens, concat_tokens
    from energon_nodes.samples.cookers import Cooker, basic_sample_keys, cooker
    from energon_nodes.samples.decode import Decoder
    from energon_nodes.samples.field_map import FieldMap
    from energon_nodes.samples.lazy import Lazy, resolve
    from energon_nodes.samples.packed import PackedTokens
    from energon_nodes.samples.padding import Pad
    from energon_nodes.samples.sample import CrudeSample, Sample
    from energon_nodes.samples.store import Store, store
    from energon_nodes.samples.type_names import import_type
    from energon_nodes.samples.types import (
        CaptioningSample,
        ImageClassificationSample,
        ImageSample,
        InterleavedSample,
        MultiChoiceVQASample,
        OCRSample,
        SimilarityInterleavedSample,
        TextSample,
        VidQASample,
        VQAOCRSample,
        VQASample,
    )
    from energon_nodes.sources.jsonl import Jsonl, jsonl
    from energon_nodes.sources.shards import Shards, shards

__all__ = [
    "Batch",
    "Blend",
    "Buffer",
    "CachePool",
    "CaptioningSample",
    "Collate",
    "CollectGarbage",
    "ColumnBuffer",
    "Concat",
    "ConcatTokens",
    "Context",
    "Cooker",
    "CrudeSample",
    "DatasetError",
    "DecodeError",
    "Decoder",
    "DuplicateKeysError",
    "EnergonNodesError",
    "Epochize",
    "FatalSampleError",
    "FieldMap",
    "Filter",
    "FlatMap",
    "GroupBy",
    "Hang",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "Items",
    "Join",
    "Jsonl",
    "Key",
    "Lazy",
    "Limit",
    "Loader",
    "Log",
    "Map",
    "MultiChoiceVQASample",
    "NoCookerError",
    "Node",
    "NotInStoreError",
    "OCRSample",
    "Pack",
    "PackTo",
    "PackedTokens",
    "Pad",
    "ParallelMap",
    "PipelineDataset",
    "Prefetch",
    "Prepared",
    "PreparedMedia",
    "Problem",
    "Repeat",
    "RestoreError",
    "Sample",
    "SampleError",
    "ShardError",
    "Shards",
    "Shuffle",
    "SimilarityInterleavedSample",
    "Skip",
    "SkipSample",
    "SliceWindow",
    "SortWindow",
    "StateError",
    "Store",
    "Tap",
    "TextSample",
    "TrustError",
    "VQAOCRSample",
    "VQASample",
    "VidQASample",
    "Watchdog",
    "WatchdogError",
    "WithKeys",
    "WorkerError",
    "Wrap",
    "Zip",
    "add_verb",
    "basic_sample_keys",
    "blend",
    "blend_epochized",
    "buffer",
    "cache_pool",
    "collate",
    "concat",
    "concat_tokens",
    "cooker",
    "dataset",
    "gather_state",
    "import_type",
    "items",
    "join",
    "joined",
    "jsonl",
    "lint",
    "merge_states",
    "mix_batches",
    "pack_lengths",
    "prepare",
    "prepare_media",
    "register_encoder",
    "registered_nodes",
    "resolve",
    "scatter_state",
    "scratch",
    "shards",
    "shared",
    "state",
    "store",
    "tuning",
    "wrap",
    "write",
    "zip",
]

# Imported when it is asked for: with decoding, storage and loading the import would take more than twice as long.
_LATER = {
    "PipelineDataset": "energon_nodes.loading.dataset",
    "gather_state": "energon_nodes.loading.distributed",
    "scatter_state": "energon_nodes.loading.distributed",
    "Loader": "energon_nodes.loading.loader",
    "merge_states": "energon_nodes.loading.state",
    "dataset": "energon_nodes.recipes.datasets",
    "prepare": "energon_nodes.recipes.prepare",
    "PreparedMedia": "energon_nodes.recipes.prepare_media",
    "prepare_media": "energon_nodes.recipes.prepare_media",
    "DuplicateKeysError": "energon_nodes.recipes.prepared",
    "Prepared": "energon_nodes.recipes.prepared",
    "lint": "energon_nodes.recipes.lint",
    "Problem": "energon_nodes.recipes.problems",
    "write": "energon_nodes.recipes.write",
    "CachePool": "energon_nodes.samples.cache_pool",
    "cache_pool": "energon_nodes.samples.cache_pool",
    "Collate": "energon_nodes.samples.collate",
    "collate": "energon_nodes.samples.collate",
    "Cooker": "energon_nodes.samples.cookers",
    "basic_sample_keys": "energon_nodes.samples.cookers",
    "cooker": "energon_nodes.samples.cookers",
    "Decoder": "energon_nodes.samples.decode",
    "FieldMap": "energon_nodes.samples.field_map",
    "Lazy": "energon_nodes.samples.lazy",
    "resolve": "energon_nodes.samples.lazy",
    "ConcatTokens": "energon_nodes.samples.concat_tokens",
    "PackedTokens": "energon_nodes.samples.packed",
    "concat_tokens": "energon_nodes.samples.concat_tokens",
    "Pad": "energon_nodes.samples.padding",
    "CrudeSample": "energon_nodes.samples.sample",
    "Sample": "energon_nodes.samples.sample",
    "Store": "energon_nodes.samples.store",
    "store": "energon_nodes.samples.store",
    "import_type": "energon_nodes.samples.type_names",
    "CaptioningSample": "energon_nodes.samples.types",
    "ImageClassificationSample": "energon_nodes.samples.types",
    "ImageSample": "energon_nodes.samples.types",
    "InterleavedSample": "energon_nodes.samples.types",
    "MultiChoiceVQASample": "energon_nodes.samples.types",
    "OCRSample": "energon_nodes.samples.types",
    "SimilarityInterleavedSample": "energon_nodes.samples.types",
    "TextSample": "energon_nodes.samples.types",
    "VidQASample": "energon_nodes.samples.types",
    "VQAOCRSample": "energon_nodes.samples.types",
    "VQASample": "energon_nodes.samples.types",
    "Jsonl": "energon_nodes.sources.jsonl",
    "jsonl": "energon_nodes.sources.jsonl",
    "Shards": "energon_nodes.sources.shards",
    "shards": "energon_nodes.sources.shards",
}

add_lazy_verb("cook", "energon_nodes.combinators.cook")
add_lazy_verb("subset", "energon_nodes.combinators.subset")
add_lazy_verb("tag", "energon_nodes.combinators.tag")
add_lazy_verb("decode", "energon_nodes.combinators.decode")
add_lazy_verb("resolve", "energon_nodes.combinators.resolve")
add_lazy_verb("dataset", "energon_nodes.loading.dataset")
add_lazy_verb("loader", "energon_nodes.loading.loader")


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
