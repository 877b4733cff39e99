"""What fetches in the background ends with its process: threads, and files in folders that nobody else uses."""

from __future__ import annotations

import os
from multiprocessing import util

from energon_nodes.samples.fetching import Fetcher

__all__ = ["close_at_exit"]

_fetchers: set[Fetcher] = set()  # of this process, until they have left their folders
_told = -1  # the process that was told to close them


def close_at_exit(fetcher: Fetcher) -> None:
    """Close a fetcher when this process ends, unless it was closed before."""
    global _told
    _fetchers.difference_update([known for known in _fetchers if known.left])
    _fetchers.add(fetcher)
    if _told != os.getpid():
        _told = os.getpid()
        # Unlike `atexit`, this runs in worker processes too, and only after the workers of this process have ended:
        # those that are killed then leave nothing behind.
        util.Finalize(None, _close_all, exitpriority=-100)


def _close_all() -> None:
    for fetcher in list(_fetchers):
        fetcher.close()
    _fetchers.clear()


def _forget_parent() -> None:
    for fetcher in _fetchers:
        if not fetcher.left:
            fetcher.folder.abandon()
    _fetchers.clear()


os.register_at_fork(after_in_child=_forget_parent)
