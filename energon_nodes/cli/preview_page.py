"""The page of `preview --html`: one file without requests, in which nothing that the data hold can run."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

from energon_nodes.cli.peek import Glance, Look
from energon_nodes.cli.printing import readable_size
from energon_nodes.cli.showing import ShownPart

__all__ = ["PageSample", "page"]


class PageSample(NamedTuple):
    """Hold what the page shows of one sample.

    Example:
        >>> PageSample(Glance("/data/0.tar", "0.tar", 0, 0, "a"), [], {}, None).pictures
        []

    Args:
        glance: Where it lies.
        parts: Its parts.
        fields: The fields of the typed sample, described.
        error: Why it cannot be read or made.
    """

    glance: Glance
    parts: Sequence[ShownPart]
    fields: dict[str, str]
    error: str | None

    @property
    def pictures(self) -> list[ShownPart]:
        """The parts that are shown as pictures."""
        return [part for part in self.parts if part.picture is not None]

    @property
    def size(self) -> int:
        """The bytes of all parts."""
        return sum(part.size for part in self.parts)


def page(look: Look, note: str, samples: Sequence[PageSample]) -> str:
    """Return the page.

    Everything is escaped by Jinja, and a content security policy, which names the page's own script and style by
    their hashes, lets the browser run and fetch nothing else.

    Example:
        >>> glance = Glance("/data/0.tar", "0.tar", 0, 0, "<script>alert(1)</script>")
        >>> text = page(Look("/data", "train", 1, iter(())), "crude", [PageSample(glance, [], {}, None)])
        >>> "<script>alert" in text, "&lt;script&gt;alert" in text
        (False, True)

    Args:
        look: The dataset.
        note: What the samples are.
        samples: The samples to show.

    Returns:
        HTML.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # 50 ms that only this command pays

    environment = Environment(
        loader=PackageLoader("energon_nodes.cli", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["size"] = readable_size
    script, style = (_file(name) for name in ("page.js", "page.css"))
    policy = f"default-src 'none'; img-src data:; script-src {_hash(script)}; style-src {_hash(style)}"
    return environment.get_template("page.html.jinja").render(
        look=look, note=note, samples=samples, policy=policy, script=script, style=style
    )


def _file(name: str) -> str:
    return (resources.files("energon_nodes.cli") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
