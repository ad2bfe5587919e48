"""A handle on the store under test: what a history would see of it, with a limit on every call."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from ..errors import StoreError
from ..stores.guard import GuardedStore
from .promises import COMPLETE, EXACT, PROMPT, TIDY, BrokenPromiseError, require, within

__all__ = ["Handle", "as_bytes"]

T = TypeVar("T")

LATE = 2.0
"""Seconds that a `wait` may last beyond its timeout: some stores round up to whole ones."""


class Handle:
    """The store's calls; each fails with a broken promise when it raises, hangs or gives nonsense.

    Safe to use from several threads if the store is.
    """

    def __init__(self, store: Any, patience: float) -> None:
        self.store = store
        self.patience = patience

    def can(self, name: str) -> bool:
        """Whether the store has an optional method, as far as can be seen without calling it."""
        return callable(getattr(self.store, name, None))

    def set(self, key: str, value: bytes) -> None:
        self._call(lambda: self.store.set(key, value), f"set({key!r})", COMPLETE)

    def get(self, key: str) -> bytes:
        """The value of a key that has been set."""
        return as_bytes(self.got(key), key)

    def got(self, key: str) -> Any:
        """What `get` returns, as it stands."""
        return self._call(lambda: self.store.get(key), f"get({key!r})", COMPLETE)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        found = self._call(lambda: self.store.multi_get(keys), "multi_get", COMPLETE)
        return [as_bytes(value, key) for key, value in zip(keys, found, strict=True)]

    def delete(self, key: str) -> bool:
        answer = self._call(lambda: self.store.delete_key(key), f"delete_key({key!r})", TIDY)
        return bool(answer)

    def check(self, keys: list[str]) -> bool:
        return bool(self._call(lambda: self.store.check(keys), "check", PROMPT))

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        found = self._call(
            lambda: self.store.compare_set(key, expected, desired),
            f"compare_set({key!r})",
            COMPLETE,
        )
        return as_bytes(found, key)

    def holds(self, key: str) -> bool:
        """Whether the key is there now, asked the way a history asks."""
        guarded = GuardedStore(self.store)
        return self._call(lambda: guarded.there([key]), f"looking for {key!r}", PROMPT)

    def wait(self, keys: list[str], seconds: float) -> bool:
        """Whether all keys came within `seconds`; the store must say so in time, not early."""
        what = f"wait with a timeout of {seconds:g} s"
        began = time.monotonic()
        try:
            there = within(
                seconds + LATE, lambda: GuardedStore(self.store).wait(keys, seconds), what
            )
        except StoreError as error:
            raise self._broken(what, error, PROMPT) from error
        took = time.monotonic() - began
        require(
            there or took >= 0.9 * seconds, f"{what} gave up after {took:.2f} s already", PROMPT
        )
        return there

    def wait_raw(self, keys: list[str]) -> None:
        """A long `wait`, to be called from a thread of one's own."""
        self.store.wait(keys, timedelta(seconds=self.patience))

    def _call(self, call: Callable[[], T], what: str, promise: str) -> T:
        __tracebackhide__ = True
        try:
            return within(self.patience, call, what)
        except BrokenPromiseError:
            raise
        except Exception as error:
            raise self._broken(what, error, promise) from error

    @staticmethod
    def _broken(what: str, error: Exception, promise: str) -> BrokenPromiseError:
        return BrokenPromiseError(f"{what} raised {type(error).__name__}: {error}", promise)


def as_bytes(value: Any, key: str) -> bytes:
    """The bytes that a store gave; anything else breaks a promise."""
    require(
        isinstance(value, (bytes, bytearray, memoryview)),
        f"the store gave {type(value).__name__} instead of bytes for {key!r}",
        EXACT,
    )
    return bytes(value)
