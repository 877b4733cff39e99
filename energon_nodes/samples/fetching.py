"""Threads of one process that fetch files into a cache folder while samples wait for their turn."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from energon_nodes.storage.cache_folder import CacheFolder

__all__ = ["Fetcher", "Ticket"]

_log = logging.getLogger("energon_nodes.cache")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5  # seconds between looks for room, made by others than this process
_GOODBYE = 10.0  # seconds that closing waits for reads in progress

_QUEUED, _BUSY, _READY, _GONE = "queued", "busy", "ready", "gone"


class Ticket:
    """One file that lazy values of this process wait for, however many they are."""

    __slots__ = ("data", "name", "read", "state", "users")

    def __init__(self, name: str, read: Callable[[], bytes]) -> None:
        self.name, self.read = name, read
        self.state = _QUEUED
        self.users = 1
        self.data: bytes | None = None  # fetched, and there was no room for it


class Fetcher:
    """Fetch files in the order in which they were asked for.

    A file that was asked for is pinned until the last of those who asked has taken or dropped it. When the
    folder is full of such files, a thread waits with what it has read in its hands; who needs just that takes it from
    there. So nothing is read in vain, and there are never more bytes in memory than one file for each thread.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fetcher = Fetcher(CacheFolder(f"{folder}/cache", 1000, 10), threads=1, queue=10)
        ...     ticket = fetcher.claim("0" * 32, lambda: b"a cat")
        ...     while fetcher.folder.ledger.read().files == 0:
        ...         time.sleep(0.001)
        ...     fetcher.take(ticket), fetcher.close()
        (b'a cat', None)

    Args:
        folder: Where the files go; it is closed with this.
        threads: How many are fetched at a time; the threads start when they are needed.
        queue: How many may wait for a thread.
    """

    def __init__(self, folder: CacheFolder, threads: int, queue: int) -> None:
        self.folder = folder
        self.pid = os.getpid()
        self.broken = False
        self._most, self._bound = threads, queue
        self._tickets: dict[str, Ticket] = {}
        self._work: SimpleQueue[Ticket | None] = SimpleQueue()
        self._dropped: SimpleQueue[Ticket | str] = SimpleQueue()
        self._queued = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._threads: list[threading.Thread] = []
        self._running = 0
        self._closing = self.left = False
        self._leaving = threading.Lock()  # whoever gets it leaves the folder; nobody waits for it

    # ---- what lazy values call ---------------------------------------------------------------

    def claim(self, name: str, read: Callable[[], bytes]) -> Ticket | None:
        """Ask for a file.

        Args:
            name: Its name in the folder.
            read: Gives its bytes.

        Returns:
            What `take` and `drop` need, or None where too many wait already.
        """
        self.settle()
        with self._lock:
            ticket = self._tickets.get(name)
            if ticket is not None:
                ticket.users += 1
                return ticket
            if self._queued >= self._bound or self.broken or self._closing:
                return None
            ticket = self._tickets[name] = Ticket(name, read)
            self._queued += 1
            if self._queued > self._idle and len(self._threads) < self._most:
                self._start_thread()
        self._work.put(ticket)
        return ticket

    def join(self, name: str) -> Ticket | None:
        """Ask for a file that is asked for already, else return None."""
        with self._lock:
            ticket = self._tickets.get(name)
            if ticket is not None:
                ticket.users += 1
            return ticket

    def take(self, ticket: Ticket) -> bytes | None:
        """Return the bytes, count them, and give the ticket back; wait if they are being fetched just now.

        Returns:
            None if they were not fetched: nobody had the time, it failed, or they are gone.
        """
        self.settle()
        with self._lock:
            while ticket.state == _BUSY and ticket.data is None:
                self._changed.wait()
            data, ready = ticket.data, ticket.state == _READY
        try:
            if ready:
                data = self.read(ticket.name)
            if data is not None:  # from the hands of a thread, it was never in the folder
                self.count(hits=int(ready), direct=int(not ready))
            return data
        finally:
            with self._lock:
                self._release(ticket)

    def drop(self, dropped: Ticket | str) -> None:
        """Give back a ticket, or the name of a file of this process alone, from a destructor: it takes no lock."""
        self._dropped.put(dropped)

    def settle(self) -> None:
        """Do what `drop` has put off."""
        if self._dropped.empty():
            return
        with self._lock:
            while True:
                try:
                    dropped = self._dropped.get_nowait()
                except Empty:
                    return
                if isinstance(dropped, Ticket):
                    self._release(dropped)
                else:
                    self._unpin(dropped)

    def read(self, name: str) -> bytes | None:
        """Return a file that is in the folder, else None."""
        try:
            return self.folder.read(name)
        except OSError as error:
            self.give_up(error)
            return None

    def count(self, *, hits: int = 0, direct: int = 0) -> None:
        """Count values that were read from the folder, and from where they come from."""
        try:
            self.folder.count(hits=hits, direct=direct)
        except OSError as error:
            self.give_up(error)

    def put(self, name: str, data: bytes, *, pin: bool, shared: bool = True) -> bool:
        """Put a file into the folder; return whether it is there."""
        self.settle()
        if self.broken:
            return False
        try:
            return self.folder.put(name, data, pin=pin, shared=shared)
        except OSError as error:
            self.give_up(error)
            return False

    def give_up(self, error: OSError) -> None:
        """Put nothing into the folder any more, and say why once."""
        if not self.broken and not self._closing:
            self.broken = True
            _log.warning(
                "the cache folder %s cannot be used any more (%s): values are read from where they come from, each "
                "when it is needed",
                self.folder.root,
                error,
            )

    # ---- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """End the threads, wait for what they are reading just now, and leave the folder."""
        self.end()
        until = time.monotonic() + _GOODBYE
        for thread in list(self._threads):
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))
        self._leave()

    def end(self) -> None:
        """Let the threads end, the last of which leaves the folder; a destructor may call it: it takes no lock."""
        if self._closing or self.pid != os.getpid():
            return
        self._closing = True
        if not self._threads:
            self._leave()
        for _ in self._threads:
            self._work.put(None)

    # ---- inside ------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"energon_nodes-cache-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        self._running += 1
        thread.start()

    def _serve(self) -> None:
        try:
            while not self._closing:
                with self._lock:
                    self._idle += 1
                ticket = self._work.get()
                with self._lock:
                    self._idle -= 1
                    if ticket is None or ticket.state != _QUEUED:
                        continue
                    self._queued -= 1
                    ticket.state = _GONE if self.broken else _BUSY
                    if self.broken:
                        continue
                stored = False
                try:
                    stored = self._fetch(ticket)
                except OSError as error:
                    self.give_up(error)
                finally:
                    self._finish(ticket, stored)
        finally:
            with self._lock:
                self._running -= 1
                last = self._closing and not self._running
                self._changed.notify_all()
            if last:
                self._leave()

    def _fetch(self, ticket: Ticket) -> bool:
        """Bring a file into the folder and pin it; return whether it is there."""
        if self.folder.pin(ticket.name):  # by another process, or in an earlier pass
            return True
        try:
            data = ticket.read()
        except Exception as error:  # who needs it reads it again, and gets the error
            _log.debug("%s could not be fetched ahead: %r", ticket.name, error)
            return False
        pause = _FIRST_PAUSE
        while not self.put(ticket.name, data, pin=True):
            with self._lock:
                ticket.data = data
                self._changed.notify_all()
                if not ticket.users or self._closing or self.broken:
                    return False
                self._changed.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return True

    def _finish(self, ticket: Ticket, stored: bool) -> None:
        with self._lock:
            if stored:
                ticket.data = None  # else it waits for those who asked: the folder cannot be used any more
            ticket.state = _READY if stored else _GONE
            if not ticket.users:
                self._forget(ticket)
            self._changed.notify_all()

    def _release(self, ticket: Ticket) -> None:
        ticket.users -= 1
        if not ticket.users and ticket.state != _BUSY:  # of a busy one, the thread takes care
            self._forget(ticket)
        self._changed.notify_all()

    def _forget(self, ticket: Ticket) -> None:
        if ticket.state == _QUEUED:
            self._queued -= 1
        elif ticket.state == _READY:
            self._unpin(ticket.name)
        ticket.state, ticket.data = _GONE, None
        del self._tickets[ticket.name]

    def _unpin(self, name: str) -> None:
        if self.left:
            return
        try:
            self.folder.unpin(name)
        except OSError as error:
            self.give_up(error)

    def _leave(self) -> None:
        if not self._leaving.acquire(blocking=False):
            return
        self.left = True
        try:
            self.folder.close()
        except OSError as error:
            _log.warning("the cache folder %s could not be cleaned up: %s", self.folder.root, error)
