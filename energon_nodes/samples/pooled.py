"""Files of a store that a cache pool fetches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from energon_nodes.core.encoders import register_encoder
from energon_nodes.samples.lazy import Lazy, decode_lazy, encode_lazy

if TYPE_CHECKING:
    from energon_nodes.samples.cache_pool import CachePool
    from energon_nodes.samples.fetching import Ticket
    from energon_nodes.samples.store import Store

__all__ = ["PooledLazy"]


class PooledLazy(Lazy):
    """Stand for a file of a store that a cache pool fetches; `pool.lazy(store, name)` makes it.

    The file is fetched for the process that asked for it; a pickled one asks for nothing until its `get`. In all else
    it is a `Lazy`.
    """

    __slots__ = ("_process", "_ticket", "pool")

    def __init__(self, pool: CachePool, store: Store, name: str, ticket: Ticket | None = None) -> None:
        super().__init__(store, name)
        self.pool = pool
        self._ticket = ticket
        self._process = os.getpid()

    def read(self) -> Any:
        """Return what `get` returns; the file may be evicted after the first time."""
        ticket, self._ticket = self._ticket, None
        if self._process != os.getpid():
            ticket = None
        try:
            return self.store.decoded(self.name, self.pool.taken(self, ticket))
        except Exception as error:
            error.add_note(f"reading {self.name!r} of the store {self.store.path}, through a cache pool")
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return PooledLazy, (self.pool, self.store, self.name)

    def __del__(self) -> None:
        ticket = self._ticket
        if ticket is not None and self._process == os.getpid():
            self.pool.give_back(ticket)


register_encoder(PooledLazy, "pooled_lazy_file", encode_lazy, decode_lazy)
