"""Take samples from a loader and write them to one shard after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from math import isinf

from energon_nodes.core.errors import DatasetError
from energon_nodes.loading.loader import Loader
from energon_nodes.recipes.write_keys import KeyBook
from energon_nodes.recipes.write_state import WriteFolder, WriteState
from energon_nodes.samples.to_parts import Encoded
from energon_nodes.storage import paths
from energon_nodes.storage.tar_writer import TarWriter
from energon_nodes.storage.writing import replacing

__all__ = ["WriteRun"]

_BUFFER = 1 << 20


class WriteRun:
    """Write the shards that are missing, and keep the state after each.

    Args:
        place: The folder.
        state: How far an earlier run came; it is brought up to date.
        loader: Gives the samples, from the beginning of a pass.
        length: How many there are, if that is known.
        progress: Whether to show a bar; None: in a terminal.

    Example:
        >>> import energon_nodes as en
        >>> from energon_nodes.samples.to_parts import ToParts
        >>> place = WriteFolder("memory://write_run")
        >>> state = WriteState({"name": "%d.tar", "max_samples": 2, "max_bytes": None})
        >>> loader = en.items([{"txt": "a"}, {"txt": "b"}, {"txt": "c"}]).map(ToParts()).loader()
        >>> WriteRun(place, state, loader, 3, None).run()
        >>> state.done, state.shards
        (True, [('0.tar', 2, 10240), ('1.tar', 1, 10240)])
    """

    def __init__(
        self,
        place: WriteFolder,
        state: WriteState,
        loader: Loader[Encoded],
        length: float | None,
        progress: bool | None,
    ) -> None:
        self._place = place
        self._state = state
        self._loader = loader
        self._length = None if length is None or isinf(length) else length
        self._progress = progress
        self._samples = state.samples
        self._parts = Counter(state.parts)
        self._book = KeyBook(lambda shard: paths.join(place.root, state.shards[shard][0]))

    def run(self) -> None:
        """Write until the pass ends.

        Raises:
            DatasetError: Two samples have the same key, or only some have one.
            Exception: What the pipeline raises.
        """
        from tqdm import tqdm  # not needed by those who only read

        state, settings = self._state, self._state.settings
        for shard in range(len(state.shards)):
            self._book.finish(self._place.read_keys(shard), shard)
        disable = None if self._progress is None else not self._progress  # None: shown in a terminal
        with tqdm(
            total=self._length, initial=self._samples, desc="writing", unit=" samples", disable=disable, leave=False
        ) as bar:
            samples = self._outputs()
            for first in samples:
                shard = settings["name"] % len(state.shards)
                before = self._samples
                with (
                    replacing(paths.join(self._place.root, shard)) as partial,
                    open(partial, "wb", buffering=_BUFFER) as file,
                ):
                    writer = TarWriter(file)
                    for encoded in chain([first], samples):
                        self._write(writer, *encoded)
                        bar.update()
                        if self._is_full(self._samples - before, writer.size):
                            break
                    writer.end()
                    hashes = self._book.check()
                if state.keyed:
                    self._place.save_keys(len(state.shards), hashes)
                self._book.finish(hashes, len(state.shards))
                state.shards.append((shard, self._samples - before, writer.size))
                state.parts = dict(self._parts)
                state.loader = self._loader.state_dict()
                self._place.save(state)
        state.done, state.loader = True, {}
        self._place.save(state)

    def _outputs(self) -> Iterator[Encoded]:
        saved = self._state.loader
        if saved:
            self._loader.load_state_dict(saved)
        for output in self._loader:
            # A loader that is at the end of its pass goes on with the next one.
            if saved and self._loader.state_dict()["pass"] != saved["pass"]:
                return
            saved = {}
            yield output

    def _is_full(self, samples: int, size: int) -> bool:
        most, most_bytes = self._state.settings["max_samples"], self._state.settings["max_bytes"]
        return (most is not None and samples >= most) or (most_bytes is not None and size >= most_bytes)

    def _write(self, writer: TarWriter, key: str | None, parts: dict[str, bytes]) -> None:
        if self._state.keyed is None:
            self._state.keyed = key is not None
        if self._state.keyed != (key is not None):
            one, other = ("no", "one") if key is None else ("a", "none")
            raise DatasetError(
                f"sample {self._samples} has {one} __key__, and those before it have {other}: give each sample a key "
                "with key=lambda sample: ..., or take out __key__ to have all of them numbered"
            )
        if key is None:
            key = f"{self._samples:09d}"
        else:
            self._book.add(key, self._samples)
        for part, data in parts.items():
            writer.add(f"{key}.{part}", data)  # a name that `ToParts` has checked
        self._parts.update(parts.keys())
        self._samples += 1
