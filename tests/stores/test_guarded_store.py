"""The guard: what it asks of a store, with and without the methods that a store may have."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist

from synchist import History, MemoryStore, StoreError
from synchist.stores.guard import GuardedStore


class OfPython(dist.Store):
    """The four methods, in a Python subclass of torch's Store, which has all others by name."""

    def __init__(self) -> None:
        super().__init__()
        self.held = MemoryStore()

    def set(self, key: str, value: Any) -> None:
        self.held.set(key, value)

    def get(self, key: str) -> bytes:
        return self.held.get(key)

    def wait(self, keys: list[str], timeout: timedelta = timedelta(seconds=1)) -> None:
        self.held.wait(keys, timeout)

    def delete_key(self, key: str) -> bool:
        return self.held.delete_key(key)


STORES: dict[str, Callable[[], Any]] = {
    "memory": MemoryStore,
    "hash": dist.HashStore,
    "file": lambda: dist.FileStore(tempfile.mkstemp()[1], 1),
    "tcp": lambda: dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False),
    "legacy tcp": lambda: dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=False
    ),
    "prefix": lambda: dist.PrefixStore("p", dist.HashStore()),
    "a Python subclass": OfPython,
}

every_store = pytest.mark.parametrize("open_store", [*STORES.values()], ids=[*STORES])


@every_store
@pytest.mark.parametrize("value", [b"", b"v", b"\xff\0\n", bytes(range(256)) * 500])
def test_looking_gives_the_value_or_none_and_changes_nothing(
    open_store: Callable[[], Any], value: bytes
) -> None:
    raw = open_store()
    store = GuardedStore(raw)
    assert store.look("k") is None
    assert not store.there(["k"])
    store.set("k", value)
    assert store.look("k") == value
    assert store.look("k") == value == raw.get("k")
    store.delete("k")
    assert store.look("other") is None


@every_store
def test_several_values_come_in_order(open_store: Callable[[], Any]) -> None:
    raw = open_store()
    store = GuardedStore(raw)
    for number in range(5):
        store.set(f"k{number}", bytes([number]))
    assert store.get_all([f"k{n}" for n in (3, 0, 4)]) == [b"\x03", b"\0", b"\x04"]


@pytest.mark.parametrize("prefixes", [0, 2])
def test_a_tcp_store_without_libuv_is_not_asked_for_several_values_at_once(prefixes: int) -> None:
    """It waits for a delayed acknowledgement for each of them, 40 ms at a time."""
    raw: Any = STORES["legacy tcp"]()
    for number in range(prefixes):
        raw = dist.PrefixStore(f"p{number}", raw)
    assert GuardedStore(raw)._multi_get is None


def test_a_failure_of_an_optional_method_is_no_sign_that_it_is_missing() -> None:
    class Broken(MemoryStore):
        def compare_set(self, key: str, expected: str | bytes, desired: str | bytes, /) -> bytes:
            raise RuntimeError("connection reset by peer")

    with pytest.raises(StoreError, match=r"compare_set failed.*connection reset"):
        GuardedStore(Broken()).look("k")


def test_two_ranks_sync_over_a_python_subclass_of_torchs_store() -> None:
    store = OfPython()

    def run(rank: int) -> str:
        h = History(store=store, rank=rank, world_size=2, timeout=30)
        for epoch in range(3):
            h.new_epoch(rank=rank)
            h.new_batch(loss=epoch + rank + 0.5)
            h.sync()
        h.close()
        return h.digest()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(run, range(2))
    assert first == second
