"""The kit on the stores that come with synchist: everything passes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from synchist import DirectoryStore, MemoryStore, Store
from synchist.testing import StoreTests


class TestMemoryStore(StoreTests):
    """Its handles are one object, as threads share it."""

    @pytest.fixture
    def backend(self) -> Iterator[None]:
        self.store = MemoryStore()
        yield
        assert self.store.num_keys() == 0, "the kit leaves nothing behind"

    def open_store(self) -> Store:
        return self.store


class TestDirectoryStore(StoreTests):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[None]:
        self.path = tmp_path
        yield
        assert DirectoryStore(tmp_path).num_keys() == 0, "the kit leaves nothing behind"

    def open_store(self) -> Store:
        return DirectoryStore(self.path)

    def opener(self) -> Callable[[], Store]:
        return functools.partial(DirectoryStore, self.path)
