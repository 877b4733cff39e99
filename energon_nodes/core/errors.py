"""The exceptions of the library, and the notes that say where an error happened."""

from __future__ import annotations

from typing import Any, cast

__all__ = [
    "DatasetError",
    "DecodeError",
    "EnergonNodesError",
    "FatalSampleError",
    "NoCookerError",
    "NotInStoreError",
    "RestoreError",
    "SampleError",
    "ShardError",
    "SkipSample",
    "StateError",
    "TrustError",
    "WatchdogError",
    "WorkerError",
    "annotate",
    "shown_key",
]


class EnergonNodesError(Exception):
    """Serve as the base of every error that the library raises itself.

    Example:
        >>> issubclass(StateError, EnergonNodesError)
        True
    """


class SampleError(EnergonNodesError):
    """Report one bad sample; the error policies (`on_error`) apply to it.

    Example:
        >>> issubclass(DecodeError, SampleError)
        True
    """


class DecodeError(SampleError):
    """Report a part of a sample that cannot be decoded.

    Example:
        >>> raise DecodeError("part 'jpg' is truncated")
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DecodeError: part 'jpg' is truncated
    """


class ShardError(SampleError):
    """Report bytes of a shard that are wrong: the message names shard, offset and remedy.

    Example:
        >>> issubclass(ShardError, SampleError)
        True
    """


class NoCookerError(SampleError):
    """Report a sample that no cooker is meant for; the error policies apply to it.

    Example:
        >>> import energon_nodes as en
        >>> crude = en.items([{"__key__": "a", "jpg": b""}])
        >>> next(crude.cook(en.Cooker(str, has_parts=["txt"])))
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.NoCookerError: no cooker matches a sample with the subflavors {} and the parts ...
    """


class NotInStoreError(SampleError, KeyError):
    """Report a name that a store does not have; the error policies apply to the sample that asked for it.

    Example:
        >>> print(NotInStoreError("no file 'a.jgp' in /data; did you mean 'a.jpg'?"))
        no file 'a.jgp' in /data; did you mean 'a.jpg'?
    """

    def __str__(self) -> str:
        # KeyError shows the text as a quoted literal.
        return Exception.__str__(self)


class DatasetError(EnergonNodesError, ValueError):
    """Report a dataset whose metadata, index or configuration is wrong.

    Example:
        >>> issubclass(DatasetError, ValueError)
        True
    """


class StateError(EnergonNodesError, ValueError):
    """Report a checkpoint that does not fit the pipeline it is loaded into.

    Example:
        >>> import energon_nodes as en
        >>> state = en.items(range(4)).batch(2).state_dict()
        >>> en.items(range(4)).limit(2).reset(state)
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.StateError: the checkpoint holds a Batch where this pipeline has a Limit (at the root)
    """


class RestoreError(EnergonNodesError):
    """Report an element of a buffer that could not be rebuilt from its restore key after a resume.

    Args:
        message: What happened, where, and the way out.
        node: The node whose buffer held the element, as its one-line description.
        key: The restore key of the element.

    Example:
        >>> import energon_nodes as en
        >>> broken = []
        >>> def check(value):
        ...     if value in broken:
        ...         raise ValueError(f"{value} is broken")
        ...     return value
        >>> pipeline = en.items(range(4)).map(check).shuffle(4)
        >>> first = next(pipeline)
        >>> state = pipeline.state_dict()
        >>> broken += [0, 1, 2, 3]
        >>> pipeline.reset(state)
        >>> try:
        ...     next(pipeline)
        ... except RestoreError as error:
        ...     error.node, error.cause.args[0].endswith("is broken")
        ('Shuffle(size=4)', True)
    """

    def __init__(self, message: str, *, node: str = "", key: object = None) -> None:
        super().__init__(message)
        self.node = node
        self.key = key

    @property
    def cause(self) -> BaseException | None:
        """What the source or a user function raised."""
        return self.__cause__


class TrustError(EnergonNodesError, PermissionError):
    """Refuse to run code that lies beside or inside the data; `trust=True` allows it.

    Example:
        >>> issubclass(TrustError, PermissionError)
        True
    """


class WorkerError(EnergonNodesError, RuntimeError):
    """Report a worker process that died or whose output cannot be sent.

    Example:
        >>> issubclass(WorkerError, RuntimeError)
        True
    """


class FatalSampleError(EnergonNodesError):
    """Stop the stream, whatever the error policy says.

    User functions raise it for failures that no skipping can repair; the library raises it when
    too many elements failed in a row.

    Example:
        >>> import energon_nodes as en
        >>> def broken(value):
        ...     raise FatalSampleError("the tokenizer is missing")
        >>> try:
        ...     next(en.items([1]).map(broken, on_error="skip"))
        ... except FatalSampleError as error:
        ...     print(error, error.__notes__)
        the tokenizer is missing ["at node Map(fn=broken, on_error='skip')", 'restore key (0, 0)']
    """


class WatchdogError(FatalSampleError, TimeoutError):
    """Report an element that did not come in the time that a watchdog allows.

    Example:
        >>> import energon_nodes as en, threading
        >>> come = threading.Event()
        >>> pipeline = en.items([1]).map(lambda value: come.wait()).watchdog(0.05, on_timeout="raise")
        >>> try:
        ...     next(pipeline)
        ... except WatchdogError as error:
        ...     print(str(error).partition(":")[0])
        no element from Map(fn=<lambda>) for 0.1 s; it hangs in Map(fn=<lambda>)
        >>> come.set()
        >>> next(pipeline)
        True
    """


class SkipSample(Exception):  # a request, as StopIteration is
    """Drop the current element: user functions raise it, no error policy is asked.

    Example:
        >>> import energon_nodes as en
        >>> def odd_only(value):
        ...     if value % 2 == 0:
        ...         raise SkipSample
        ...     return value
        >>> list(en.items(range(5)).map(odd_only))
        [1, 3]
    """


def annotate(error: BaseException, node: str, key: object, value: object, place: str | None = None) -> None:
    """Add notes that name the node, the restore key and the sample to an error.

    Args:
        error: The exception on its way to the user.
        node: The node, as its one-line description.
        key: The restore key of the element, or None where there is none.
        value: The element that failed; one with a `__key__` is named by it.
        place: Where the element lies, such as "shard 'a.tar' at byte 1024", or None where that is not known.

    Example:
        >>> error = ValueError("bad")
        >>> annotate(error, "Map(fn=augment)", (0, 7), {"__key__": "cat"}, "shard 'a.tar' at byte 1024")
        >>> error.__notes__
        ['at node Map(fn=augment)', "restore key (0, 7), sample 'cat', shard 'a.tar' at byte 1024"]
    """
    if getattr(error, "_energon_nodes_annotated", False):
        return
    error.add_note(f"at node {node}")
    parts: list[str] = []
    if key is not None:
        parts.append(f"restore key {shown_key(key)}")
    missing = object()
    sample = getattr(value, "__key__", missing)
    if isinstance(value, dict):
        sample = cast("dict[Any, Any]", value).get("__key__", missing)
    if sample is not missing:
        parts.append(f"sample {sample!r}")
    if place is not None:
        parts.append(place)
    if parts:
        error.add_note(", ".join(parts))
    try:
        error._energon_nodes_annotated = True  # type: ignore[attr-defined]
    except AttributeError:  # an exception class with __slots__: a second note does no harm
        pass


def shown_key(key: object) -> str:
    """Return a restore key as text of a bearable length."""
    text = repr(key)
    return text if len(text) <= 300 else text[:297] + "..."
