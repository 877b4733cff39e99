"""What can be wrong with a dataset: the codes, what each means, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

__all__ = ["KINDS", "Kind", "Problem"]

Severity = Literal["error", "warning"]


class Kind(NamedTuple):
    """Describe a kind of problem.

    Example:
        >>> KINDS["empty-shard"].severity
        'warning'

    Args:
        severity: "error" where data are lost, wrong or unreadable; "warning" where they may well be meant so.
        meaning: What is wrong, in a few words.
        remedy: What to do.
    """

    severity: Severity
    meaning: str
    remedy: str


_AGAIN = "prepare the dataset again"

KINDS: dict[str, Kind] = {
    # Shards
    "missing-shard": Kind("error", "the metadata list a shard that does not exist", f"bring it back, or {_AGAIN}"),
    "unreadable-shard": Kind("error", "a shard cannot be read at all", "correct its permissions or the store"),
    "compressed-shard": Kind("error", "a shard is compressed", "decompress it into a plain .tar"),
    "damaged-shard": Kind("error", "a shard is cut short, or has bytes that are no tar header", "write the shard anew"),
    "empty-shard": Kind("warning", "a shard has no samples", "remove it, or write it anew"),
    "bad-shard-name": Kind(
        "error", "the name of a shard cannot stand in a split file, so prepare refuses it", "rename the file"
    ),
    "unlisted-shard": Kind(
        "warning", "a shard lies in the folder and the metadata do not list it", f"{_AGAIN} (`--update`), or remove it"
    ),
    # Members
    "interleaved-key": Kind(
        "error",
        "the parts of a sample stand apart, with other samples in between",
        "write the files of a shard sorted by key",
    ),
    "duplicate-key": Kind(
        "error", "two samples have the same key", "rename one of them: lookup by key is ambiguous, iteration works"
    ),
    "repeated-part": Kind(
        "error", "a sample has the same part twice, so it cannot be read", "remove or rename one of them"
    ),
    "sparse-member": Kind("error", "a file is stored sparse, which readers refuse", "write it without `tar --sparse`"),
    "dotted-part": Kind(
        "warning",
        "the name of a part looks like the rest of a file name with dots",
        "rename the files: the key ends at the first dot of the name",
    ),
    "many-parts": Kind(
        "warning",
        "there are very many different names of parts, as when file names have dots in them",
        "rename the files: the key ends at the first dot of the name",
    ),
    "ignored-file": Kind(
        "warning", "a file belongs to no sample and is not read", "give it a name with a key, a dot and a part"
    ),
    # Index
    "missing-index": Kind("error", "a shard has no .tar.idx", f"{_AGAIN} (`--index-only` makes indices alone)"),
    "stale-index": Kind("error", "an index disagrees with the data", f"{_AGAIN} (`--update`)"),
    "wrong-count": Kind("error", "the info file counts other samples than the shard has", f"{_AGAIN} (`--update`)"),
    "missing-sqlite": Kind(
        "warning", "there is no index.sqlite, so samples cannot be looked up by key", f"{_AGAIN}; training needs none"
    ),
    "stale-sqlite": Kind("error", "index.sqlite disagrees with the data", f"{_AGAIN} (`--index-only`)"),
    "stale-key-table": Kind(
        "warning", "the table for lookup by key is damaged or of another index", "remove it: it is made again"
    ),
    "bad-uuid": Kind("warning", "index.uuid is missing or no UUID", f"{_AGAIN} (`--index-only`)"),
    # Metadata
    "bad-metadata": Kind("error", "a metadata file cannot be used", "correct the file, or prepare the dataset again"),
    "unknown-split-shard": Kind("error", "the split names a shard that the info file does not list", "correct it"),
    "empty-split": Kind("error", "no part of the split has a shard", "correct the split file, or prepare again"),
    "unsplit-shard": Kind("warning", "a shard is in no part of the split", "add it, or exclude it"),
    "shared-shard": Kind("warning", "the split has a shard more than once", "keep it in one part"),
    "unknown-exclude": Kind("warning", "an exclude entry fits no shard and no sample", "correct or remove it"),
    "missing-dataset-config": Kind(
        "warning", "no dataset.yaml says what the samples are", "prepare again with --sample-type, or read raw parts"
    ),
    "unused-setting": Kind("warning", "dataset.yaml has a key without effect in this library", "remove it"),
    "needs-trust": Kind(
        "warning", "a check would run code that comes with the data, and was left out", "read it, then say --trust"
    ),
    # Samples
    "missing-field": Kind(
        "error", "a field of the sample type cannot be filled", "correct the field map, or the sample"
    ),
    "failing-loader": Kind(
        "error", "the sample loader makes no sample of the parts", "correct the sample loader, or the sample"
    ),
    "undecodable-part": Kind("error", "a part cannot be decoded", "repair or remove it"),
    "missing-package": Kind("warning", "a part needs a package that is not installed", "install it and check again"),
    # JSON lines
    "bad-line": Kind("error", "a line is no JSON object", "correct or remove the line"),
    "empty-file": Kind("error", "a JSON lines file has no record", "remove it, or write it anew"),
}
"""All kinds, by code."""


@dataclass(frozen=True)
class Problem:
    """Say what is wrong in one place of a dataset.

    Example:
        >>> print(Problem("repeated-part", "part 'jpg' stands twice", shard="0.tar", key="a", offset=512))
        error repeated-part: shard '0.tar' at byte 512, sample 'a': part 'jpg' stands twice: remove or ...

    Args:
        code: One of `KINDS`.
        what: What is wrong here.
        shard: The shard, relative to the dataset; None where it concerns the dataset as a whole.
        key: The key of the sample.
        part: The name of the part.
        offset: The byte of the shard where the sample, file or damage begins.
        line: The number of the line, from 1, of a JSON lines file.
    """

    code: str
    what: str
    shard: str | None = None
    key: str | None = None
    part: str | None = None
    offset: int | None = None
    line: int | None = None

    @property
    def severity(self) -> Severity:
        """Whether this is an "error" or a "warning"."""
        return KINDS[self.code].severity

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return KINDS[self.code].remedy

    @property
    def place(self) -> str:
        """Where it is, or "" where it concerns the dataset as a whole."""
        place = "" if self.shard is None else f"shard {self.shard!r}"
        if self.line is not None:
            place = f"line {self.line}"
        if self.offset is not None:
            place += f" at byte {self.offset}"
        if self.key is not None and self.line is None:
            place += f", sample {self.key!r}"
        return place.removeprefix(", ").strip()

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data with the keys `severity`, `remedy` and those of the arguments."""
        return {"severity": self.severity, **asdict(self), "remedy": self.remedy}

    def __str__(self) -> str:
        pieces = [f"{self.severity} {self.code}", self.place, self.what, self.remedy]
        return ": ".join(piece for piece in pieces if piece)
