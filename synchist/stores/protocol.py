"""What a store must be able to do: torch c10d's words, four of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol, runtime_checkable

__all__ = ["CheckStore", "CloneStore", "CompareSetStore", "MultiGetStore", "Store"]


@runtime_checkable
class Store(Protocol):
    """A key-value store that several processes share.

    A `torch.distributed` store satisfies this as it stands. Values are bytes; keys are `str`.
    """

    def set(self, key: str, value: bytes, /) -> None:
        """Put `value` under `key`, replacing what was there. Need not wait for anybody."""

    def get(self, key: str, /) -> bytes:
        """The value under `key`; blocks until it is there."""

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        """Block until every key is there; raise `TimeoutError` when `timeout` passes first."""

    def delete_key(self, key: str, /) -> bool:
        """Remove `key`; True when it was there."""


@runtime_checkable
class CheckStore(Protocol):
    """Optional: ask without waiting."""

    def check(self, keys: list[str], /) -> bool:
        """Whether every key is there now."""


@runtime_checkable
class CompareSetStore(Protocol):
    """Optional: read a key that may not be there, in one round trip."""

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Put `desired` under `key` if `expected` is there; the value that is there afterwards.

        Where the key is not there, an `expected` that is not empty is returned, and nothing is put.
        """


@runtime_checkable
class MultiGetStore(Protocol):
    """Optional: several values in one round trip."""

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """The values of all keys, in order; blocks until all are there."""


@runtime_checkable
class CloneStore(Protocol):
    """Optional: a second, independent connection to the same store."""

    def clone(self) -> Store:
        """A handle that does not share a connection (or a lock) with this one."""
