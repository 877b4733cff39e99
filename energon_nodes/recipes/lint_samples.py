"""Check the content of samples: whether every part can be decoded, and every field filled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from energon_nodes.core.errors import (
    DecodeError,
    EnergonNodesError,
    FatalSampleError,
    SampleError,
    SkipSample,
    TrustError,
)
from energon_nodes.recipes.problems import Problem
from energon_nodes.samples.decode import Decoder
from energon_nodes.samples.field_map import FieldMap
from energon_nodes.samples.image_modes import IMAGE_EXTENSIONS
from energon_nodes.samples.parts import Limits, basic_decoder
from energon_nodes.storage import paths
from energon_nodes.storage.runs import Run

__all__ = ["ContentChecks", "is_decodable", "needed_parts", "reason_of"]

_ADDRESS = re.compile(r" <_io\.BytesIO object at 0x[0-9a-f]+>")


def is_decodable(part: str) -> bool:
    """Tell whether the name of a part says how to decode it.

    Example:
        >>> is_decodable("left.JPG"), is_decodable("mp4")
        (True, False)

    Args:
        part: The name of the part.

    Returns:
        True when the decoder makes something other than bytes of it.
    """
    extension = part.rpartition(".")[2].lower()
    return extension == "gz" or extension in IMAGE_EXTENSIONS or basic_decoder(extension, Limits(False, 0)) is not None


@dataclass(frozen=True)
class ContentChecks:
    """Decode the parts of samples and make typed samples of them, and tell what fails.

    Example:
        >>> checks = ContentChecks("memory://nothing", trust=False, make=None)
        >>> list(checks.problems("0.tar", Run("a", 0, [])))
        []

    Args:
        root: The folder of the dataset.
        trust: Whether pickled parts may be loaded.
        make: Makes the typed sample of decoded parts; None for crude data.
    """

    root: str
    trust: bool
    make: Callable[[dict[str, Any]], Any] | None
    decoder: Decoder = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "decoder", Decoder(image="torchrgb8", trust=self.trust))

    @property
    def is_own(self) -> bool:
        """Whether nothing but this library is needed: no function and no type of the user."""
        make: Any = self.make
        return make is None or (
            isinstance(make, FieldMap)
            and cast("FieldMap[Any]", make).sample_type.__module__.startswith("energon_nodes.")
        )

    def problems(self, shard: str, run: Run) -> Iterator[Problem]:
        """Check one sample.

        Args:
            shard: The shard, relative to the dataset.
            run: The sample.

        Yields:
            What is wrong.
        """
        path = paths.join(self.root, shard)
        # A sample loader may look into any part; a field map passes those on that nothing decodes.
        needed = needed_parts(self.make)
        whole = self.make is not None and needed is None
        sample: dict[str, Any] = {"__key__": run.key, "__shard__": shard}
        failed: set[str] = set()
        for part in run.parts:
            if not whole and not is_decodable(part.name):
                sample[part.name] = b""
                continue
            data = paths.read_range(path, part.offset, part.offset + part.size)
            found = self._decoded(sample, part.name, data)
            if found is not None:
                failed.add(part.name)
                yield Problem(found[0], found[1], shard, run.key, part.name, part.offset)
        if self.make is None or (failed and not failed.isdisjoint(failed if needed is None else needed)):
            return
        try:
            self.make(sample)
        except SkipSample:
            pass
        except (SampleError, FatalSampleError) as error:
            code = "failing-loader" if needed is None else "missing-field"
            yield Problem(code, str(error), shard, run.key, offset=run.start)
        except Exception as error:  # the code of the user may raise anything
            code = "failing-loader" if needed is None else "missing-field"
            yield Problem(code, f"{self.make!r} failed: {error!r}", shard, run.key, offset=run.start)

    def _decoded(self, sample: dict[str, Any], name: str, data: bytes) -> tuple[str, str] | None:
        """Put a part into the sample; return code and text of the problem where it cannot be decoded."""
        try:
            sample[name] = self.decoder({name: data})[name]
        except TrustError as error:
            return "needs-trust", str(error)
        except FatalSampleError as error:
            return "missing-package", str(error)
        except (DecodeError, EnergonNodesError) as error:
            cause = error.__cause__ or error
            return "undecodable-part", f"part {name!r} of {len(data)} bytes: {reason_of(cause)}"
        return None


def reason_of(error: BaseException) -> str:
    """Return type and text of an error of a decoder, without the addresses that Pillow puts into it.

    Example:
        >>> reason_of(ValueError("cannot identify image file <_io.BytesIO object at 0x7f0c>"))
        'ValueError: cannot identify image file'

    Args:
        error: The error.

    Returns:
        The text.
    """
    return f"{type(error).__name__}: {_ADDRESS.sub('', str(error))}"


def needed_parts(make: Any) -> tuple[str, ...] | None:
    """Return the parts that a field map needs, and None for any other maker of samples.

    Example:
        >>> needed_parts(None) is None
        True

    Args:
        make: What makes samples of decoded parts.

    Returns:
        The names of the parts.
    """
    return cast("FieldMap[Any]", make).parts if isinstance(make, FieldMap) else None
