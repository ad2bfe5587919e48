"""The seam between syncing and transport: all ranks give bytes, all get everyone's bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..deadline import Deadline

__all__ = ["Exchange", "Judge"]

Judge = Callable[[bytes, bytes, int], str | None]
"""`judge(rank0_facts, facts, rank)`: what differs in words, or None when the two fit together."""


class Exchange(Protocol):
    """One rank's end of a group that meets once and then exchanges bytes round by round.

    Every method may block and talk, and none of them may be called from two threads at once.
    """

    rank: int
    world_size: int

    @property
    def attempt(self) -> str | None:
        """Identity of the current meeting, equal on all of its ranks; None before it succeeded."""

    @property
    def round(self) -> int:
        """Number of the current round; 1 is the first after the meeting."""

    def meet(self, facts: bytes, judge: Judge, deadline: Deadline) -> list[bytes]:
        """Meet all ranks; returns every rank's `facts`, in rank order, the same on all ranks.

        May be called again after `SyncTimeoutError`, with the same or newer facts. Raises
        `DivergenceError` on all ranks when rank 0's `judge` objects to one of them.
        """

    def gather(self, payload: bytes, deadline: Deadline) -> list[bytes]:
        """Every rank's payload of the current round, in rank order.

        After an error, call again with the very same payload. Once it has returned, it returns the
        same again until `advance()`.
        """

    def advance(self) -> None:
        """The round is merged: go on to the next. Never raises; cleaning up is best effort."""

    def abort(self, reason: str) -> None:
        """Tell the others that this rank gives up. Best effort, at most 2 seconds."""

    def retire(self) -> None:
        """Another exchange takes over. Does not block and sends no messages."""

    def close(self, timeout: float) -> None:
        """Leave in good order. Rank 0 waits up to `timeout` seconds for the others, then tidies."""
