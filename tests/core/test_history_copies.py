"""Pickling and copying: everything but the store comes along, and `attach` brings a store back."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synchist import Best, History, MemoryStore, NotSyncedError, SyncTimeoutError, UsageError
from synchist.codec import encode

Sync = Callable[[Sequence[History]], None]
World = Callable[..., list[History]]
AtOnce = Callable[..., list[Any]]

COPY: list[Callable[[History], History]] = [
    copy.deepcopy,
    copy.copy,
    lambda h: pickle.loads(pickle.dumps(h)),
    lambda h: pickle.loads(pickle.dumps(h, protocol=2)),
]
both_ways = pytest.mark.parametrize("copied", COPY, ids=["deepcopy", "copy", "pickle", "pickle2"])

STEP = st.sampled_from(["epoch", "batch", "record", "record_batch", "attribute", "sync", "late"])


def step(h: History, kind: str, number: int) -> None:
    """One write, of which the n-th is the same wherever it is made."""
    value = [number, float(number), torch.tensor(number), [number], np.arange(2)][number % 5]
    opened = len(h.local)
    if kind == "epoch":
        h.new_epoch(opened=value)
    elif kind == "attribute":
        h.attributes["ab"[number % 2]] = value
    elif not opened:
        return
    elif kind == "record":
        h.record("v", value, weight=number)
    elif kind == "batch":
        h.new_batch(x=value)
    elif h.local[-1, "batches"] and kind in ("record_batch", "late"):
        h.record_batch(kind, value)


def shown(h: History) -> bytes:
    return encode(
        [
            h.digest(),
            h.synced.to_list(),
            h.local.to_list(),
            dict(h.local.attributes),
            [view.to_list() for view in h.ranks.values()],
        ]
    )


@settings(max_examples=120)
@given(st.lists(STEP, max_size=12), st.lists(STEP, max_size=8), st.sampled_from(COPY))
def test_a_copy_goes_on_exactly_like_the_original(
    world: World, sync_all: Sync, before: list[str], after: list[str], copied: Any
) -> None:
    """The open epoch, the open row and what is pending come along."""
    rules = {"v": "last", "opened": "first"}
    originals = world(2, reduce=rules)
    for number, kind in enumerate(before):
        if kind == "sync":
            sync_all(originals)
        else:
            step(originals[number % 2], kind, number)
    copies = [copied(h) for h in originals]
    assert [shown(h) for h in copies] == [shown(h) for h in originals]
    store = MemoryStore()
    for rank, h in enumerate(copies):
        h.attach(store=store, rank=rank, world_size=2)
    assert [shown(h) for h in copies] == [shown(h) for h in originals]
    for number, kind in enumerate(after):
        for pair in (originals, copies):
            if kind == "sync":
                sync_all(pair)
            else:
                step(pair[number % 2], kind, number)
    for pair in (originals, copies):
        sync_all(pair)
    assert [shown(h) for h in copies] == [shown(h) for h in originals]
    assert copies[0].digest() == copies[1].digest()


@both_ways
def test_a_copy_is_independent(copied: Any) -> None:
    h = History()
    h.new_epoch(a=[1])
    h.new_batch(x=1.0)
    other = copied(h)
    other.record_batch("x", 2.0)
    other.new_epoch()
    other.attributes["b"] = 1
    assert h.to_list() == [{"batches": [{"x": 1.0}], "a": [1]}]
    assert dict(h.attributes) == {}
    h.record("a", 5)
    assert other[0, "a"] == [1]


@both_ways
def test_a_copy_has_no_store_and_says_how_to_get_one(world: World, copied: Any) -> None:
    h = world(2)[1]
    h.new_epoch(a=1)
    other = copied(h)
    assert (other.rank, other.world_size) == (1, 2)
    assert "no store attached" in repr(other)
    with pytest.raises(UsageError, match=r"attach\(store=\.\.\., rank=\.\.\., world_size=\.\.\.\)"):
        other.sync()
    with pytest.raises(NotSyncedError):
        other[-1, "a"]
    assert other.local[-1, "a"] == 1
    other.record("b", 2)
    other.close()


@both_ways
def test_a_copy_of_what_is_synced_has_nothing_pending(
    world: World, sync_all: Sync, copied: Any
) -> None:
    histories = world(2)
    for h in histories:
        h.new_epoch(a=1)
        h.new_batch(x=1.0)
    sync_all(histories)
    other = copied(histories[0])
    assert "unsynced" not in repr(other)
    assert other[-1] == histories[0][-1]
    other.record_batch("x", 2.0)
    assert "unsynced" in repr(other)
    assert other.local[-1, "batches", 0, "x"] == 2.0


@both_ways
def test_options_weights_and_the_reduce_table_come_along(
    world: World, sync_all: Sync, copied: Any
) -> None:
    histories = world(2, reduce={"v": "mean"}, name="run", timeout=12.5)
    for rank, h in enumerate(histories):
        h.new_epoch()
        h.record("v", float(rank), weight=1 + 2 * rank)
    sync_all(histories)
    other = copied(histories[0])
    assert other[-1, "v"] == 0.75
    assert other.best("v") == Best(0, 0.75)
    assert (other.name, other.timeout) == ("run", 12.5)
    assert other.digest() == histories[0].digest()


@both_ways
def test_records_of_a_round_that_timed_out_come_along(
    world: World, sync_all: Sync, copied: Any, at_once: AtOnce
) -> None:
    histories = world(2)
    sync_all(histories)
    h = histories[0]
    h.new_epoch(a=1)
    with pytest.raises(SyncTimeoutError):
        h.sync(timeout=0)
    h.record("b", 2)
    other = copied(h)
    assert other.local[-1] == {"batches": [], "a": 1, "b": 2}
    with pytest.raises(NotSyncedError):
        other[-1, "a"]
    store = MemoryStore()
    pair = [other, copied(histories[1])]
    for rank, history in enumerate(pair):
        history.attach(store=store, rank=rank, world_size=2)
    sync_all(pair)
    sync_all(histories)
    sync_all(histories)
    assert {history.digest() for history in (*pair, *histories)} == {h.digest()}
    assert pair[1].to_list() == [{"batches": [], "a": 1, "b": 2}]


def test_tensors_still_on_their_way_come_along() -> None:
    h = History(rank=0, world_size=2)
    h.new_epoch(v=torch.tensor(1.5))
    h.new_batch(x=torch.arange(3))
    other = pickle.loads(pickle.dumps(h))
    assert other.local[-1, "v"] == 1.5
    assert torch.equal(other.local[-1, "batches", 0, "x"], torch.arange(3))


def test_a_pickled_history_opens_in_a_process_without_torch_and_goes_on() -> None:
    h = History()
    h.new_epoch(v=torch.tensor(1.5))
    h.new_batch(x=2.0)
    code = (
        "import pickle, sys; h = pickle.load(sys.stdin.buffer); h.record_batch('y', 3);"
        "assert 'torch' not in sys.modules; print(h.to_list(), h.digest())"
    )
    child = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(h),
        capture_output=True,
        check=True,
        timeout=60,
    )
    h.record_batch("y", 3)
    assert child.stdout.decode().strip() == f"{h.to_list()} {h.digest()}"


def test_attach_lets_a_local_history_join_others(sync_all: Sync) -> None:
    """A history made before the ranks are known keeps what was recorded in it."""
    store = MemoryStore()
    h = History(timeout=30)
    joined = History(store=store, rank=1, world_size=2, timeout=30)
    h.new_epoch(a=1)
    h.new_batch(x=1.0)
    h.attach(store=store, rank=0, world_size=2)
    sync_all([h, joined])
    assert joined.to_list() == h.to_list() == [{"batches": [{"x": 1.0}], "a": 1}]
    h.record_batch("y", 2)
    joined.new_epoch(b=1)
    sync_all([h, joined])
    assert h.digest() == joined.digest()


def test_attach_checks_its_arguments_and_changes_nothing_when_they_are_wrong() -> None:
    h = History()
    h.new_epoch(a=1)
    with pytest.raises(UsageError):
        h.attach(store=MemoryStore(), rank=2, world_size=2)
    with pytest.raises(UsageError):
        h.attach(store="tcp://", rank=0, world_size=2)  # type: ignore[arg-type]
    assert (h.rank, h.world_size) == (0, 1)
    assert h[-1, "a"] == 1


def test_a_damaged_pickle_is_an_error_of_ours_not_a_crash() -> None:
    from synchist import CorruptDataError

    h = History()
    h.new_epoch(a=1)
    state = h.__getstate__()
    for name in ("log", "pending"):
        with pytest.raises(CorruptDataError):
            History().__setstate__({**state, name: state[name][:-1]})
