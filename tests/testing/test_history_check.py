"""`check_history_over` is no formality: it fails on a store that changes what it is given."""

from __future__ import annotations

import pytest

from synchist import MemoryStore
from synchist.testing import BrokenPromiseError, check_history_over


class Truncating(MemoryStore):
    def set(self, key: str, value: bytes | bytearray | memoryview, /) -> None:
        super().set(key, bytes(value)[:40])


def test_a_store_that_cuts_values_is_found() -> None:
    store = Truncating()
    with pytest.raises(BrokenPromiseError, match="a history over this store failed"):
        check_history_over(lambda: store, world_size=2, examples=2, timeout=2.0)


def test_a_sound_store_passes() -> None:
    store = MemoryStore()
    check_history_over(lambda: store, world_size=4, examples=5)
    assert store.num_keys() == 0
