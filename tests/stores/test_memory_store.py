"""MemoryStore: the words of a store, waits that sleep, and clear errors."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synchist.stores import CheckStore, MemoryStore, MultiGetStore, Store

SOON = timedelta(seconds=0.05)
LONG = timedelta(seconds=30)

KEYS = st.sampled_from(["", "a", "A", "a/b", "é", "x" * 300])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.binary(max_size=4)),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("read"), KEYS),
    ),
    max_size=30,
)


def test_it_is_a_store_with_the_optional_words() -> None:
    store = MemoryStore()
    assert isinstance(store, Store)
    assert isinstance(store, CheckStore)
    assert isinstance(store, MultiGetStore)


@given(STEPS)
def test_it_behaves_like_a_dict(steps: list[tuple[str, str, bytes]]) -> None:
    store, model = MemoryStore(timeout=0), dict[str, bytes]()
    for step, key, *value in steps:
        if step == "set":
            store.set(key, value[0])
            model[key] = value[0]
        elif step == "delete":
            assert store.delete_key(key) == (model.pop(key, None) is not None)
        elif key in model:
            assert store.get(key) == model[key]
            store.wait([key], timedelta(0))
        else:
            with pytest.raises(TimeoutError):
                store.get(key)
        assert store.check([key]) == (key in model)
        assert store.num_keys() == len(model)
    assert store.multi_get(list(model)) == list(model.values())


def test_values_are_copied_when_they_are_set() -> None:
    store, value = MemoryStore(), bytearray(b"before")
    store.set("a", value)
    store.set("b", memoryview(value)[:3])
    value[:] = b"after!"
    assert store.multi_get(["a", "b"]) == [b"before", b"bef"]
    assert type(store.get("a")) is bytes


def test_a_waiting_thread_gets_the_value_once_it_is_set() -> None:
    store = MemoryStore(timeout=30)
    with ThreadPoolExecutor(3) as pool:
        one = pool.submit(store.get, "a")
        both = pool.submit(store.multi_get, ["b", "a"])
        waited = pool.submit(store.wait, ["a", "b"], LONG)
        store.set("a", b"1")
        assert one.result(30) == b"1"
        assert not both.done()
        assert not waited.done()
        store.set("b", b"2")
        assert both.result(30) == [b"2", b"1"]
        assert waited.result(30) is None


def test_a_wait_needs_all_keys_at_once() -> None:
    store = MemoryStore(timeout=30)
    store.set("a", b"1")
    started = threading.Event()

    def wait() -> None:
        started.set()
        store.wait(["a", "b"], LONG)

    with ThreadPoolExecutor(1) as pool:
        waited = pool.submit(wait)
        assert started.wait(30)
        store.delete_key("a")
        store.set("b", b"2")
        with pytest.raises(TimeoutError):
            store.wait(["a"], SOON)
        assert not waited.done()
        store.set("a", b"1")
        waited.result(30)


def test_waiting_costs_no_cpu() -> None:
    store = MemoryStore(timeout=30)
    cpu: list[float] = []

    def wait() -> None:
        before = time.thread_time()
        with pytest.raises(TimeoutError):
            store.wait(["never"], timedelta(seconds=1))
        cpu.append(time.thread_time() - before)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(30)
    assert cpu[0] < 0.05


def test_a_timeout_names_the_missing_keys_and_the_seconds() -> None:
    store = MemoryStore()
    store.set("here", b"")
    with pytest.raises(TimeoutError, match=r"after 0.05 s .* keys 'gone', 'lost'$"):
        store.wait(["gone", "here", "lost"], SOON)
    with pytest.raises(TimeoutError, match=r"'k0', 'k1', 'k2', 'k3', 'k4' and 15 more$"):
        store.wait([f"k{i}" for i in range(20)], timedelta(0))


def test_the_constructors_timeout_bounds_get() -> None:
    store = MemoryStore(timeout=0.05)
    for call in (lambda: store.get("a"), lambda: store.multi_get(["a"]), lambda: store.wait(["a"])):
        with pytest.raises(TimeoutError, match=r"after 0.05 s the store has no key 'a'"):
            call()


def test_timeouts_may_be_negative_or_endless() -> None:
    store = MemoryStore(timeout=float("inf"))
    with pytest.raises(TimeoutError):
        store.wait(["a"], timedelta(seconds=-1))
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(store.get, "a")
        other = pool.submit(store.wait, ["a"], timedelta.max)
        store.set("a", b"1")
        assert one.result(30) == b"1"
        other.result(30)


def test_wrong_types_are_refused() -> None:
    store = MemoryStore()
    with pytest.raises(TypeError, match="a key must be a str, got bytes"):
        store.set(b"a", b"1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="keys must be a list of str"):
        store.wait("abc", SOON)
    for value in ("text", 3, None):
        with pytest.raises(TypeError, match="a value must be bytes, got"):
            store.set("a", value)  # type: ignore[arg-type]
    assert store.num_keys() == 0


def test_it_cannot_be_pickled_or_copied_and_says_what_to_use() -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="DirectoryStore"):
            attempt(MemoryStore())


def test_many_threads_pass_values_around_a_ring() -> None:
    store, size, rounds = MemoryStore(timeout=30), 8, 50

    def run(rank: int) -> int:
        total = 0
        for n in range(rounds):
            store.set(f"{n}/{rank}", bytes([rank]))
            values = store.multi_get([f"{n}/{other}" for other in range(size)])
            total += sum(value[0] for value in values)
            if n:
                assert store.delete_key(f"{n - 1}/{rank}")
        return total

    with ThreadPoolExecutor(size) as pool:
        assert list(pool.map(run, range(size))) == [sum(range(size)) * rounds] * size
    assert store.num_keys() == size
