"""Put the messages of workers into the order of their turns, where one has needed several messages for a turn."""

from __future__ import annotations

from collections.abc import Sequence

from energon_nodes.loading.messages import Message

__all__ = ["InTurn"]


class InTurn:
    """Hold what comes early: torch asks the workers one after the other, whether or not a turn was finished.

    Args:
        first: The rank's own turn that is due.
        going: For each worker, whether it has turns.

    Example:
        >>> inbox = InTurn(0, [True, True])
        >>> for message in (Message(0, errors=[b"late"], open=True), Message(1, "b"), Message(0, "a")):
        ...     inbox.add(message)
        ...     while (found := inbox.take()) is not None:
        ...         print(found.turn, found.errors, found.value)
        0 [b'late'] HOLE
        0 [] a
        1 [] b
    """

    def __init__(self, first: int, going: Sequence[bool]) -> None:
        start = first - first % len(going)
        self._awaited = [start + worker if goes else None for worker, goes in enumerate(going)]
        self._held: dict[int, Message] = {}

    @property
    def due(self) -> int | None:
        """The turn that is due, None when all workers have had their last one."""
        return min((turn for turn in self._awaited if turn is not None), default=None)

    def take(self) -> Message | None:
        """Return the message of the turn that is due, None if it has not come."""
        due = self.due
        message = None if due is None else self._held.pop(due, None)
        if message is not None and not message.open:
            workers = len(self._awaited)
            self._awaited[message.turn % workers] = None if message.last else message.turn + workers
        return message

    def add(self, message: Message) -> None:
        """Add the next message of a worker."""
        awaited = self._awaited[message.turn % len(self._awaited)]
        assert awaited is not None, "a worker has answered behind its last turn"
        assert message.turn >= awaited, "the outputs of workers came out of order"
        if message.open and not message.errors:
            return  # the worker is ahead and waits for others
        before = self._held.get(message.turn)
        if before is not None:
            # Of errors that say "not yet", the last one of a turn tells all: else a long wait would fill the memory.
            message.errors = [*(before.errors[:-1] if message.open else before.errors), *message.errors]
        self._held[message.turn] = message
