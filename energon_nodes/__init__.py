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

from energon_nodes.core.verbs import add_lazy_nodes, add_lazy_verb

if TYPE_CHECKING:
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
    from energon_nodes.sources.items import Items, items
    from energon_nodes.sources.jsonl import Jsonl, jsonl
    from energon_nodes.sources.shards import Shards, shards
    from energon_nodes.sources.wrap import Wrap, wrap

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

# Imported when it is asked for. What prepares and checks datasets needs no torch, which takes two seconds; whoever uses
# nodes need not wait for decoding, storage and loading.
_LATER = {
    "Batch": "combinators.batch",
    "Blend": "combinators.blend",
    "blend": "combinators.blend",
    "blend_epochized": "combinators.blend",
    "mix_batches": "combinators.blend",
    "CollectGarbage": "combinators.collect_garbage",
    "Concat": "combinators.concat",
    "concat": "combinators.concat",
    "Epochize": "combinators.epochize",
    "Filter": "combinators.filter",
    "FlatMap": "combinators.flat_map",
    "GroupBy": "combinators.group_by",
    "Hang": "combinators.hangs",
    "Join": "combinators.join",
    "join": "combinators.join",
    "joined": "combinators.join",
    "Limit": "combinators.limit",
    "Log": "combinators.log",
    "Map": "combinators.map",
    "Pack": "combinators.pack",
    "PackTo": "combinators.pack_to",
    "pack_lengths": "combinators.packing_strategies",
    "ParallelMap": "combinators.parallel_map",
    "Prefetch": "combinators.prefetch",
    "Repeat": "combinators.repeat",
    "Shuffle": "combinators.shuffle",
    "Skip": "combinators.skip",
    "SliceWindow": "combinators.slice_window",
    "SortWindow": "combinators.sort_window",
    "Tap": "combinators.tap",
    "Watchdog": "combinators.watchdog",
    "WithKeys": "combinators.with_keys",
    "Zip": "combinators.zip",
    "zip": "combinators.zip",
    "register_encoder": "core.encoders",
    "DatasetError": "core.errors",
    "DecodeError": "core.errors",
    "EnergonNodesError": "core.errors",
    "FatalSampleError": "core.errors",
    "NoCookerError": "core.errors",
    "NotInStoreError": "core.errors",
    "RestoreError": "core.errors",
    "SampleError": "core.errors",
    "ShardError": "core.errors",
    "SkipSample": "core.errors",
    "StateError": "core.errors",
    "TrustError": "core.errors",
    "WatchdogError": "core.errors",
    "WorkerError": "core.errors",
    "buffer": "core.fields",
    "scratch": "core.fields",
    "shared": "core.fields",
    "state": "core.fields",
    "tuning": "core.fields",
    "Node": "core.node",
    "add_verb": "core.node",
    "registered_nodes": "core.node",
    "Buffer": "core.restore",
    "ColumnBuffer": "core.restore",
    "Key": "core.restore",
    "Context": "core.share",
    "PipelineDataset": "loading.dataset",
    "gather_state": "loading.distributed",
    "scatter_state": "loading.distributed",
    "Loader": "loading.loader",
    "merge_states": "loading.state",
    "dataset": "recipes.datasets",
    "lint": "recipes.lint",
    "prepare": "recipes.prepare",
    "PreparedMedia": "recipes.prepare_media",
    "prepare_media": "recipes.prepare_media",
    "DuplicateKeysError": "recipes.prepared",
    "Prepared": "recipes.prepared",
    "Problem": "recipes.problems",
    "write": "recipes.write",
    "CachePool": "samples.cache_pool",
    "cache_pool": "samples.cache_pool",
    "Collate": "samples.collate",
    "collate": "samples.collate",
    "ConcatTokens": "samples.concat_tokens",
    "concat_tokens": "samples.concat_tokens",
    "Cooker": "samples.cookers",
    "basic_sample_keys": "samples.cookers",
    "cooker": "samples.cookers",
    "Decoder": "samples.decode",
    "FieldMap": "samples.field_map",
    "Lazy": "samples.lazy",
    "resolve": "samples.lazy",
    "PackedTokens": "samples.packed",
    "Pad": "samples.padding",
    "CrudeSample": "samples.sample",
    "Sample": "samples.sample",
    "Store": "samples.store",
    "store": "samples.store",
    "import_type": "samples.type_names",
    "CaptioningSample": "samples.types",
    "ImageClassificationSample": "samples.types",
    "ImageSample": "samples.types",
    "InterleavedSample": "samples.types",
    "MultiChoiceVQASample": "samples.types",
    "OCRSample": "samples.types",
    "SimilarityInterleavedSample": "samples.types",
    "TextSample": "samples.types",
    "VQAOCRSample": "samples.types",
    "VQASample": "samples.types",
    "VidQASample": "samples.types",
    "Items": "sources.items",
    "items": "sources.items",
    "Jsonl": "sources.jsonl",
    "jsonl": "sources.jsonl",
    "Shards": "sources.shards",
    "shards": "sources.shards",
    "Wrap": "sources.wrap",
    "wrap": "sources.wrap",
}

_OTHER_NAMES = {"zip": "zip_nodes"}

# The verbs of all nodes: the module of each, and the node or function that makes it.
_VERBS = {
    "batch": ("combinators.batch", "Batch"),
    "blend": ("combinators.blend", "Blend"),
    "mix_batches": ("combinators.blend", "mix_batches"),
    "gc": ("combinators.collect_garbage", "CollectGarbage"),
    "concat": ("combinators.concat", "Concat"),
    "cook": ("combinators.cook", "cook"),
    "decode": ("combinators.decode", "decode"),
    "epochize": ("combinators.epochize", "Epochize"),
    "filter": ("combinators.filter", "Filter"),
    "flat_map": ("combinators.flat_map", "FlatMap"),
    "unbatch": ("combinators.flat_map", "unbatch"),
    "group_by": ("combinators.group_by", "GroupBy"),
    "join": ("combinators.join", "join"),
    "limit": ("combinators.limit", "Limit"),
    "log": ("combinators.log", "Log"),
    "map": ("combinators.map", "map"),
    "pack": ("combinators.pack", "Pack"),
    "pack_to": ("combinators.pack_to", "pack_to"),
    "parallel_map": ("combinators.parallel_map", "ParallelMap"),
    "prefetch": ("combinators.prefetch", "Prefetch"),
    "repeat": ("combinators.repeat", "Repeat"),
    "resolve": ("combinators.resolve", "resolve"),
    "shuffle": ("combinators.shuffle", "Shuffle"),
    "skip": ("combinators.skip", "Skip"),
    "slice_window": ("combinators.slice_window", "SliceWindow"),
    "sort_window": ("combinators.sort_window", "SortWindow"),
    "subset": ("combinators.subset", "subset"),
    "tag": ("combinators.tag", "tag"),
    "tap": ("combinators.tap", "Tap"),
    "watchdog": ("combinators.watchdog", "Watchdog"),
    "with_keys": ("combinators.with_keys", "WithKeys"),
    "zip": ("combinators.zip", "Zip"),
    "dataset": ("loading.dataset", "dataset"),
    "loader": ("loading.loader", "loader"),
}

for _verb, (_module, _maker) in _VERBS.items():
    add_lazy_verb(_verb, f"energon_nodes.{_module}", _maker)
for _module in sorted({module for module in _LATER.values() if module.startswith(("combinators.", "sources."))}):
    add_lazy_nodes(f"energon_nodes.{_module}")


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_LATER[name]}")
    value = globals()[name] = getattr(module, _OTHER_NAMES.get(name, name))
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
