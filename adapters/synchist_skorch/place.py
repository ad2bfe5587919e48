"""Where a history gets its store, rank and world size from; also after it was copied.

A store cannot be pickled. A copy made in this process finds it again under a token; a copy made in
another process takes its place by the rules of `distributed_history`.
"""

from __future__ import annotations

import secrets
import weakref
from contextlib import suppress
from typing import Any

import attrs

from synchist import History, Store, UsageError
from synchist_torch.finding import Found, find

__all__ = ["Place"]

_stores: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


@attrs.define
class Place:
    """What a history was told about its place among the ranks; what it was not told is None.

    Attributes:
        store: the store, in the process that it was given in.
        rank: the global rank.
        world_size: the number of ranks.
        timeout: seconds that a sync waits at most.
        name: tells histories on one store apart.
        job: identity of the job.
        token: stands for the store in copies.
    """

    store: Store | None
    rank: int | None
    world_size: int | None
    timeout: float
    name: str
    job: str | None
    token: str = attrs.field(factory=lambda: secrets.token_hex(8))

    def __attrs_post_init__(self) -> None:
        if self.rank is not None and not 0 <= self.rank < (self.world_size or self.rank + 1):
            raise UsageError(f"rank must be in 0..world_size - 1, got {self.rank}")
        if self.store is not None:
            with suppress(TypeError):  # it cannot be referenced weakly: copies will not find it
                _stores[self.token] = self.store

    def find(self) -> Found:
        """Where this history stands among the ranks. Connecting to the store may block."""
        return find(self.store, self.rank, self.world_size, self.timeout)

    def history(self) -> History | None:
        """A history in this place, or None for a process on its own."""
        found = self.find()
        if found.world_size == 1:
            return None
        return History(
            store=found.store,
            rank=found.rank,
            world_size=found.world_size,
            timeout=self.timeout,
            name=self.name,
            job=self.job,
        )

    def other(self, name: str) -> Place:
        """The same place, for a history of another name."""
        return attrs.evolve(self, name=f"{self.name}/{name}" if self.name else name)

    def __getstate__(self) -> dict[str, Any]:
        had_store = self.store is not None
        return {**attrs.asdict(self, recurse=False), "store": None, "had_store": had_store}

    def __setstate__(self, state: dict[str, Any]) -> None:
        had_store = state.pop("had_store")
        for name, value in state.items():
            setattr(self, name, value)
        self.store = _stores.get(self.token)
        if (
            had_store and self.store is None
        ):  # in another process; it takes the place it finds there
            self.rank = self.world_size = None
