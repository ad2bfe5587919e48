"""Twelve stores, each with one fault: the kit has to find it, and to say what it is."""

from __future__ import annotations

import time
import weakref
from datetime import timedelta
from typing import Any

import pytest

from synchist import MemoryStore, Store
from synchist.testing import StoreTests

__all__ = ["BROKEN", "Handle", "tests_of"]


class Handle:
    """A sound handle on a shared `MemoryStore`; the faults are in its subclasses."""

    def __init__(self, backend: MemoryStore) -> None:
        self.backend = backend

    def set(self, key: str, value: bytes) -> None:
        self.backend.set(key, value)

    def get(self, key: str) -> Any:
        return self.backend.get(key)

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        self.backend.wait(keys, timeout)

    def delete_key(self, key: str) -> bool:
        return self.backend.delete_key(key)


class ForgetsASet(Handle):
    """Every fortieth set of a handle is lost, as by a full buffer."""

    count = 0

    def set(self, key: str, value: bytes) -> None:
        self.count += 1
        if self.count % 40:
            super().set(key, value)


class ReturnsStale(Handle):
    """Caches what it has read."""

    def __init__(self, backend: MemoryStore) -> None:
        super().__init__(backend)
        self.cache: dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        self.cache[key] = value
        super().set(key, value)

    def get(self, key: str) -> bytes:
        if key not in self.cache:
            self.cache[key] = super().get(key)
        return self.cache[key]

    def delete_key(self, key: str) -> bool:
        self.cache.pop(key, None)
        return super().delete_key(key)


class GetDoesNotBlock(Handle):
    def get(self, key: str) -> bytes:
        return super().get(key) if self.backend.check([key]) else b""


class WaitIgnoresItsTimeout(Handle):
    """But it can be asked without waiting, so that only waiting is wrong."""

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        self.backend.wait(keys, timedelta(seconds=60))

    def check(self, keys: list[str]) -> bool:
        return self.backend.check(keys)


class TwoKeysCollide(Handle):
    """Upper and lower case are one, as on some file systems."""

    def set(self, key: str, value: bytes) -> None:
        super().set(key.lower(), value)

    def get(self, key: str) -> bytes:
        return self.backend.get(key.lower())

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        super().wait([key.lower() for key in keys], timeout)

    def delete_key(self, key: str) -> bool:
        return super().delete_key(key.lower())


class DeleteLies(Handle):
    def delete_key(self, key: str) -> bool:
        return self.backend.check([key])


class TruncatesAtOneMebibyte(Handle):
    def set(self, key: str, value: bytes) -> None:
        super().set(key, value[: 1 << 20])


class SwapsBytesForStr(Handle):
    """Gives text where it can, as clients that decode responses do."""

    def get(self, key: str) -> Any:
        value = super().get(key)
        try:
            return value.decode() if value else value
        except UnicodeDecodeError:
            return value


class NotVisibleAcrossHandles(Handle):
    """A buffer that is never flushed."""

    def __init__(self, backend: MemoryStore) -> None:
        super().__init__(MemoryStore(timeout=backend.timeout))


class LosesOnExit(Handle):
    """What a handle set goes with it, as a lease does."""

    def __init__(self, backend: MemoryStore) -> None:
        super().__init__(backend)
        self.mine: set[str] = set()
        weakref.finalize(self, _forget, backend, self.mine)

    def set(self, key: str, value: bytes) -> None:
        self.mine.add(key)
        super().set(key, value)


def _forget(backend: MemoryStore, keys: set[str]) -> None:
    for key in keys:
        backend.delete_key(key)


class ReturnsAViewThatChanges(Handle):
    """Reads every value into one buffer, and gives that."""

    views: dict[str, bytearray]

    def __init__(self, backend: MemoryStore) -> None:
        super().__init__(backend)
        self.views = {}

    def set(self, key: str, value: bytes) -> None:
        super().set(key, value)
        if key in self.views:
            self.views[key][:] = value

    def get(self, key: str) -> Any:
        view = self.views.setdefault(key, bytearray())
        view[:] = super().get(key)
        return view


class NotSafeForTwoThreads(Handle):
    """One connection and no lock: a thread may read the answer to another's request."""

    def get(self, key: str) -> bytes:
        self.request = key
        super().wait([key], timedelta(seconds=30))
        time.sleep(0)  # where other threads come in
        return self.backend.get(self.request)


BROKEN: list[type[Handle]] = [
    ForgetsASet,
    ReturnsStale,
    GetDoesNotBlock,
    WaitIgnoresItsTimeout,
    TwoKeysCollide,
    DeleteLies,
    TruncatesAtOneMebibyte,
    SwapsBytesForStr,
    NotVisibleAcrossHandles,
    LosesOnExit,
    ReturnsAViewThatChanges,
    NotSafeForTwoThreads,
]


def tests_of(store: type[Handle]) -> type[StoreTests]:
    """The kit for one of them."""

    class Tests(StoreTests):
        patience = 1.0

        @pytest.fixture
        def backend(self) -> Any:
            self.memory = MemoryStore(timeout=30)

        def open_store(self) -> Store:
            return store(self.memory)

    Tests.__name__ = Tests.__qualname__ = f"Test{store.__name__}"
    return Tests
