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

from energon_nodes.combinators import decode as _decode  # noqa: F401 # pyright: ignore[reportUnusedImport] - it registers its verb
from energon_nodes.combinators.batch import Batch
from energon_nodes.combinators.blend import Blend, blend
from energon_nodes.combinators.concat import Concat, concat
from energon_nodes.combinators.epochize import Epochize
from energon_nodes.combinators.filter import Filter
from energon_nodes.combinators.flat_map import FlatMap
from energon_nodes.combinators.limit import Limit
from energon_nodes.combinators.map import Map
from energon_nodes.combinators.parallel_map import ParallelMap
from energon_nodes.combinators.prefetch import Prefetch
from energon_nodes.combinators.repeat import Repeat
from energon_nodes.combinators.shuffle import Shuffle
from energon_nodes.combinators.skip import Skip
from energon_nodes.combinators.tap import Tap
from energon_nodes.combinators.with_keys import WithKeys
from energon_nodes.combinators.zip import Zip
from energon_nodes.combinators.zip import zip_nodes as zip
from energon_nodes.core.encoders import register_encoder
from energon_nodes.core.errors import (
    DatasetError,
    DecodeError,
    EnergonNodesError,
    FatalSampleError,
    RestoreError,
    SampleError,
    ShardError,
    SkipSample,
    StateError,
    TrustError,
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
from energon_nodes.samples.collate import Collate, collate
from energon_nodes.samples.decode import Decoder
from energon_nodes.samples.field_map import FieldMap
from energon_nodes.samples.padding import Pad
from energon_nodes.samples.sample import CrudeSample, Sample
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
from energon_nodes.sources.shards import Shards, shards
from energon_nodes.sources.wrap import Wrap, wrap

__all__ = [
    "Batch",
    "Blend",
    "Buffer",
    "CaptioningSample",
    "Collate",
    "ColumnBuffer",
    "Concat",
    "Context",
    "CrudeSample",
    "DatasetError",
    "DecodeError",
    "Decoder",
    "EnergonNodesError",
    "Epochize",
    "FatalSampleError",
    "FieldMap",
    "Filter",
    "FlatMap",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "Items",
    "Key",
    "Limit",
    "Loader",
    "Map",
    "MultiChoiceVQASample",
    "Node",
    "OCRSample",
    "Pad",
    "ParallelMap",
    "PipelineDataset",
    "Prefetch",
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
    "StateError",
    "Tap",
    "TextSample",
    "TrustError",
    "VQAOCRSample",
    "VQASample",
    "VidQASample",
    "WithKeys",
    "WorkerError",
    "Wrap",
    "Zip",
    "add_verb",
    "blend",
    "buffer",
    "collate",
    "concat",
    "dataset",
    "gather_state",
    "import_type",
    "items",
    "merge_states",
    "register_encoder",
    "registered_nodes",
    "scatter_state",
    "scratch",
    "shards",
    "shared",
    "state",
    "tuning",
    "wrap",
    "zip",
]
