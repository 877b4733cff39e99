"""Gather the states of all ranks on one, and give one state to all, over `torch.distributed`."""

from __future__ import annotations

from typing import Any, cast

import torch.distributed as dist

from energon_nodes.core.errors import StateError
from energon_nodes.loading.loader import Loader
from energon_nodes.loading.state import merge_states

__all__ = ["gather_state", "scatter_state"]


def gather_state(loader: Loader[Any], dst: int = 0, *, group: Any = None) -> dict[str, Any] | None:
    """Gather the states of the loaders of all ranks on one rank, merged into one.

    All ranks call it after the same number of steps. Ranks that read the same data (those of one
    tensor-parallel group, say) may take part: their states are equal. Without `torch.distributed` it is the
    loader's own state. Under NCCL the current device carries the data, so set it before.

    `torch.distributed.checkpoint` does not need this: it takes a loader as it is.

    Example:
        >>> import energon_nodes as en
        >>> loader = en.items(range(4)).loader()
        >>> next(iter(loader))
        0
        >>> state = gather_state(loader)
        >>> again = en.items(range(4)).loader()
        >>> scatter_state(again, state)
        >>> list(again)
        [1, 2, 3]

    Args:
        loader: The loader of this rank.
        dst: The global rank that gets the state.
        group: The process group; None is the default one.

    Returns:
        On rank `dst` a state that any number of ranks can load, elsewhere None.

    Raises:
        StateError: On rank `dst`, if the states do not fit together or a rank could not give its own.
    """
    if not _is_distributed():
        return merge_states([loader.state_dict()])
    problem: Exception | None = None
    answer: tuple[dict[str, Any] | None, str] = (None, "")
    try:
        answer = (loader.state_dict(), "")
    except Exception as error:  # the others wait for an answer
        problem, answer = error, (None, f"{type(error).__name__}: {error}")
    here = dist.get_rank() == dst
    answers: list[Any] | None = [None] * dist.get_world_size(group) if here else None
    cast("Any", dist).gather_object(answer, answers, dst=dst, group=group)
    if problem is not None:
        raise problem
    if answers is None:
        return None
    for number, (state, text) in enumerate(answers):
        if state is None:
            raise StateError(f"rank {number} of the group could not give the state of its loader: {text}")
    return merge_states([state for state, _ in answers])


def scatter_state(loader: Loader[Any], state: dict[str, Any] | None = None, src: int = 0, *, group: Any = None) -> None:
    """Give the state on one rank to the loaders of all ranks; each takes its own streams.

    The number of ranks may differ from that of the run that saved the state.

    Example:
        >>> import energon_nodes as en
        >>> saved = en.items(range(4)).loader(streams=2).state_dict()
        >>> scatter_state(en.items(range(4)).loader(), saved)

    Args:
        loader: The loader of this rank.
        state: The state that `gather_state` returned; only rank `src` needs it.
        src: The global rank that has the state.
        group: The process group; None is the default one.

    Raises:
        StateError: If the state does not fit the loader.
    """
    box = [state]
    if _is_distributed():
        cast("Any", dist).broadcast_object_list(box, src=src, group=group)
    if box[0] is None:
        raise StateError(f"scatter_state got no state on rank {src}: give it the one that gather_state returned there")
    loader.load_state_dict(box[0])


def _is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()
