"""Names of shards: those that metadata cannot hold, runs of numbered ones, and what somebody may have meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from energon_nodes.core.errors import DatasetError
from energon_nodes.core.spelling import listed

__all__ = ["check_shard_names", "collapse", "is_writable", "nearest_shards"]

_NUMBER = re.compile(r"([0-9]+)")
_UNWRITABLE = re.compile(r"[{}\\\x00-\x1f\x7f\ud800-\udfff]")


def is_writable(name: str) -> bool:
    """Tell whether a split file can hold the name of a shard.

    Example:
        >>> is_writable("a/0.tar"), is_writable("{0}.tar")
        (True, False)

    Args:
        name: The name.

    Returns:
        False where it has braces or backslashes, which split files give a meaning, or is no text.
    """
    return _UNWRITABLE.search(name) is None


def check_shard_names(names: Iterable[str]) -> None:
    """Raise if the files of a dataset cannot hold a name.

    Example:
        >>> check_shard_names(["a/0.tar", "ü b.tar"])
        >>> check_shard_names(["{0}.tar"])
        Traceback (most recent call last):
        ...
        energon_nodes.core.errors.DatasetError: the shard names '{0}.tar' hold braces, ...

    Args:
        names: The names.

    Raises:
        DatasetError: Names have braces or backslashes, which split files give a meaning, or are no text.
    """
    wrong = [name for name in names if not is_writable(name)]
    if wrong:
        raise DatasetError(
            f"the shard names {listed(wrong)} hold braces, backslashes, control characters or bytes that are no "
            "UTF-8, which a split file cannot name: rename these files, or leave them out with exclude="
        )


def collapse(names: Sequence[str]) -> list[str]:
    """Write runs of numbered names with braces; `expand` gives the same names in the same order.

    Example:
        >>> collapse(["a_08.tar", "a_09.tar", "a_10.tar", "b.tar"])
        ['a_{08..10}.tar', 'b.tar']

    Args:
        names: Names of shards.

    Returns:
        As few entries as neighbours with one number that goes up by one allow.
    """
    written: list[str] = []
    run: list[list[str]] = []
    place = 0  # of the number that goes up in this run
    for name in names:
        pieces = _NUMBER.split(name)
        if run:
            step = _step(run[-1], pieces)
            if step and (len(run) == 1 or step == place):
                run.append(pieces)
                place = step
                continue
            written.append(_of_run(run, place))
        run = [pieces]
    if run:
        written.append(_of_run(run, place))
    return written


def _step(one: list[str], other: list[str]) -> int:
    """Return the place of the only number that is different, if it is one more and as wide; else 0."""
    if len(one) != len(other):
        return 0
    places = [place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(places) != 1 or not places[0] % 2:
        return 0
    before, after = one[places[0]], other[places[0]]
    return places[0] if len(before) == len(after) and int(after) == int(before) + 1 else 0


def _of_run(run: list[list[str]], place: int) -> str:
    if len(run) == 1:
        return "".join(run[0])
    pieces = list(run[0])
    pieces[place] = f"{{{run[0][place]}..{run[-1][place]}}}"
    return "".join(pieces)


def nearest_shards(patterns: Sequence[str], shards: Sequence[str]) -> str:
    r"""Return a hint for patterns that fit no shard.

    Example:
        >>> nearest_shards(["trian_.*"], ["train_0.tar", "val_0.tar"])
        "; the nearest names: 'train_0.tar'"
        >>> nearest_shards(["a/*.tar"], ["a/0.tar"])
        "; the nearest names: 'a/0.tar'. As a file name pattern it fits them; the regular expression is a/.*\\.tar"

    Args:
        patterns: What was written.
        shards: The names that there are.

    Returns:
        Text that continues a sentence.
    """
    near: list[str] = []
    hint = ""
    for pattern in patterns:
        globbed = [shard for shard in shards if fnmatchcase(shard, pattern)]
        if globbed and not hint:
            meant = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".").replace(r"\-", "-")
            hint = f". As a file name pattern it fits them; the regular expression is {meant}"
        near += globbed[:3] or get_close_matches(re.sub(r"\\(.)|\.\*|[*?^$]", r"\1", pattern), shards, n=3, cutoff=0.3)
    shown = list(dict.fromkeys(near))[:3] or list(shards[:3])
    return f"; the nearest names: {', '.join(map(repr, shown))}{hint}"
