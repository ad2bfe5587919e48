"""Saving and loading: what comes back, and how it goes on."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synchist import (
    Best,
    CorruptDataError,
    History,
    MemoryStore,
    NotSyncedError,
    SynchistWarning,
    SyncTimeoutError,
    TooLargeError,
    UsageError,
)
from synchist.file import Header
from synchist.segment import encode_delta

Sync = Callable[[Sequence[History]], None]
World = Callable[..., list[History]]
Shown = Callable[[History], bytes]

STEP = st.sampled_from(["epoch", "batch", "record", "record_batch", "attribute", "sync", "late"])
NAMES = ["v", "train/loss", "ü", "x\ud800", ""]

with_files = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


def step(h: History, kind: str, number: int) -> None:
    """One write, of which the n-th is the same wherever it is made."""
    values = [
        number,
        float(number),
        torch.tensor(number),
        [number],
        np.arange(2),
        "y" * 2000,
        2**70,
    ]
    value = values[number % len(values)]
    name = NAMES[number % len(NAMES)]
    opened = len(h.local)
    if kind == "epoch":
        h.new_epoch(opened=value)
    elif kind == "attribute":
        h.attributes[name] = value
    elif not opened:
        return
    elif kind == "record":
        h.record(name, value, weight=number)
    elif kind == "batch":
        h.new_batch({name: value})
    elif h.local[-1, "batches"] and kind in ("record_batch", "late"):
        h.record_batch(kind, value)


def saved_bytes(h: History, path: Path) -> bytes:
    """What `h` saves, at one time of the day."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synchist.saving.Header", partial(Header, created="today"))
        h.save(path)
    return path.read_bytes()


@with_files
@given(st.lists(STEP, max_size=14), st.lists(STEP, max_size=8))
def test_a_loaded_history_goes_on_exactly_like_the_one_that_was_saved(
    world: World,
    sync_all: Sync,
    shown: Shown,
    tmp_path: Path,
    before: list[str],
    after: list[str],
) -> None:
    """Agreed records, weights, names, pending records, the open epoch and the open row."""
    originals = world(2, reduce={"v": "last", "opened": "first"}, name="run")
    for number, kind in enumerate(before):
        if kind == "sync":
            sync_all(originals)
        else:
            step(originals[number % 2], kind, number)
    loaded = []
    for h in originals:
        path = tmp_path / f"{h.rank}.synchist"
        h.save(path)
        loaded.append(History.load(path, timeout=30))
    assert [shown(h) for h in loaded] == [shown(h) for h in originals]
    assert [repr(h).replace(", no store attached", "") for h in loaded] == list(
        map(repr, originals)
    )
    store = MemoryStore()
    for rank, h in enumerate(loaded):
        h.attach(store=store, rank=rank, world_size=2)
    for number, kind in enumerate(after):
        for pair in (originals, loaded):
            if kind == "sync":
                sync_all(pair)
            else:
                step(pair[number % 2], kind, number)
    for pair in (originals, loaded):
        sync_all(pair)
    assert [shown(h) for h in loaded] == [shown(h) for h in originals]
    assert loaded[0].digest() == loaded[1].digest()


@with_files
@given(st.lists(STEP, max_size=14))
def test_a_loaded_history_saves_the_same_bytes(
    world: World, sync_all: Sync, tmp_path: Path, steps: list[str]
) -> None:
    histories = world(2, reduce={"v": "last"})
    for number, kind in enumerate(steps):
        if kind == "sync":
            sync_all(histories)
        else:
            step(histories[number % 2], kind, number)
    for h in histories:
        first = saved_bytes(h, tmp_path / "first")
        assert saved_bytes(History.load(tmp_path / "first"), tmp_path / "again") == first
        assert saved_bytes(h, tmp_path / "first") == first


@with_files
@given(st.lists(STEP.filter(lambda kind: kind != "sync"), max_size=12), st.integers(0, 12))
def test_with_one_rank_a_loaded_history_just_goes_on(
    shown: Shown, tmp_path: Path, steps: list[str], at: int
) -> None:
    h = other = History()
    for number, kind in enumerate(steps):
        if number == at:
            h.save(tmp_path / "one.synchist")
            other = History.load(tmp_path / "one.synchist")
        for each in {id(h): h, id(other): other}.values():
            step(each, kind, number)
    assert shown(other) == shown(h)
    assert len(other) == steps.count("epoch")


@pytest.mark.parametrize("kind", [str, Path, os.fsencode], ids=["str", "Path", "bytes"])
def test_paths_of_every_kind(tmp_path: Path, kind: Callable[[Any], Any]) -> None:
    h = History()
    h.new_epoch(a=1)
    path = kind(tmp_path / "Lauf \u00fc.synchist")
    h.save(path)
    assert History.load(path) == h


def test_an_empty_history(tmp_path: Path) -> None:
    History().save(tmp_path / "empty")
    h = History.load(tmp_path / "empty")
    assert (len(h), h.to_list(), dict(h.attributes)) == (0, [], {})
    assert h == History()
    h.new_epoch(a=1)
    assert h[0, "a"] == 1


def test_a_missing_file_and_a_folder_are_errors_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        History.load(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        History.load(tmp_path)
    with pytest.raises(IsADirectoryError):
        History().save(tmp_path)
    with pytest.raises(FileNotFoundError):
        History().save(tmp_path / "missing" / "run.synchist")
    assert os.listdir(tmp_path) == []


def test_pending_records_are_saved_as_pending(world: World, sync_all: Sync, tmp_path: Path) -> None:
    histories = world(2)
    for h in histories:
        h.new_epoch(a=h.rank)
    sync_all(histories)
    h = histories[1]
    h.record("b", 5, weight=2)
    h.new_batch(x=1.0)
    h.attributes["c"] = "d"
    h.save(tmp_path / "run.synchist")
    loaded = History.load(tmp_path / "run.synchist")
    assert loaded.digest() == h.digest() == histories[0].digest()
    with pytest.raises(NotSyncedError):
        loaded[-1, "b"]
    with pytest.raises(NotSyncedError):
        loaded.attributes["c"]
    assert loaded.local[-1] == {"batches": [{"x": 1.0}], "a": 1, "b": 5}
    assert "unsynced" in repr(loaded)


def test_records_of_a_round_that_timed_out_are_saved_as_pending(
    world: World, sync_all: Sync, tmp_path: Path
) -> None:
    histories = world(2)
    sync_all(histories)
    h = histories[0]
    h.new_epoch(a=1)
    with pytest.raises(SyncTimeoutError):
        h.sync(timeout=0)
    h.record("b", 2)
    h.new_batch(x=1.0)
    h._flush()
    held = [encode_delta(delta) for delta in (h._frozen_delta(), h._pending) if delta]
    assert len(held) == 2
    h.save(tmp_path / "run.synchist")
    assert [encode_delta(delta) for delta in (h._frozen_delta(), h._pending) if delta] == held
    loaded = History.load(tmp_path / "run.synchist")
    assert loaded.local[-1] == {"batches": [{"x": 1.0}], "a": 1, "b": 2}
    assert len(loaded) == 0
    sync_all(histories)  # saving took nothing away
    sync_all(histories)
    assert histories[1].to_list() == [{"batches": [{"x": 1.0}], "a": 1, "b": 2}]


def weighted(values: list[float], weights: list[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True))


def test_weights_and_the_reduce_table_come_back_and_callables_have_to_be_given(
    world: World, sync_all: Sync, tmp_path: Path
) -> None:
    histories = world(2, reduce={"v": "mean", "f": weighted})
    for h in histories:
        h.new_epoch()
        h.record("v", float(h.rank), weight=1 + 2 * h.rank)
        h.record("f", 2.0, weight=1 + h.rank)
    sync_all(histories)
    path = tmp_path / "run.synchist"
    histories[0].save(path)
    loaded = History.load(path)
    assert loaded[-1, "v"] == 0.75
    assert loaded.best("v") == Best(0, 0.75)
    with pytest.raises(UsageError, match=r"'f' in epoch 0 .*weighted.*History\.load"):
        loaded[-1, "f"]
    assert loaded.per_rank(-1, "f") == {0: 2.0, 1: 2.0}
    given = History.load(path, reduce={"f": weighted})
    assert (given[-1, "v"], given[-1, "f"]) == (0.75, 6.0)
    loaded.save(path)  # what it is called is kept by those who do not have it
    assert History.load(path, reduce={"f": weighted, "v": "max"})[-1, ("v", "f")] == (1.0, 6.0)
    assert pickle.loads(pickle.dumps(loaded)).per_rank(-1, "f") == {0: 2.0, 1: 2.0}
    with pytest.raises(UsageError, match="reduce for 'v'"):
        History.load(path, reduce={"v": "average"})


def test_options_of_the_constructor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.synchist"
    History(name="mine", job="of yesterday", timeout=5).save(path)
    monkeypatch.setenv("SYNCHIST_JOB", "of today")
    h = History.load(path)
    assert (h.name, h.timeout, h._job) == ("mine", 1800.0, "of today")
    h = History.load(path, name="yours", timeout=3, job="mine")
    assert (h.name, h.timeout, h._job) == ("yours", 3.0, "mine")
    with pytest.raises(UsageError):
        History.load(path, timeout=-1)


def test_every_rank_loads_the_file_of_one_and_they_go_on(
    world: World, sync_all: Sync, at_once: Callable[..., list[Any]], tmp_path: Path
) -> None:
    histories = world(3, reduce={"v": "sum"})
    for epoch in range(3):
        for h in histories:
            h.new_epoch(v=epoch + h.rank)
            for batch in range(h.rank + 1):
                h.new_batch(x=float(batch))
        sync_all(histories)
    path = tmp_path / "run.synchist"
    histories[1].save(path)
    store = MemoryStore()
    loaded = [History.load(path, timeout=30) for _ in range(3)]
    for rank, h in enumerate(loaded):
        h.attach(store=store, rank=rank, world_size=3)

    def go_on(h: History) -> tuple[int, str]:
        with h:
            h.new_epoch(v=10)
            h.new_batch(x=0.5)
            h.sync()
            return len(h), h.digest()

    results = at_once([lambda h=h: go_on(h) for h in loaded])
    assert len(set(results)) == 1
    assert results[0][0] == 4
    assert loaded[2][:, "v"] == [3, 6, 9, 30]
    assert [len(h.ranks[2][2, "batches"]) for h in loaded] == [3, 3, 3]


@pytest.mark.parametrize("how", ["file", "pickle"])
def test_another_rank_leaves_the_pending_records_to_the_rank_that_saved_them(
    world: World, sync_all: Sync, tmp_path: Path, how: str
) -> None:
    histories = world(2)
    for h in histories:
        h.new_epoch(a=h.rank)
        h.new_batch(x=1.0)
    sync_all(histories)
    saver = histories[0]
    saver.record("only", "of rank 0")
    saver.new_epoch(a="second")
    saver.save(tmp_path / "run.synchist")

    def copied() -> History:
        if how == "file":
            return History.load(tmp_path / "run.synchist", timeout=30)
        found: History = pickle.loads(pickle.dumps(saver))
        return found

    store = MemoryStore()
    pair = [copied(), copied()]
    pair[0].attach(store=store, rank=0, world_size=2)
    with pytest.warns(SynchistWarning, match="rank 0 had not synced.*attached as rank 1") as told:
        pair[1].attach(store=store, rank=1, world_size=2)
    assert [warning.filename for warning in told] == [__file__]
    assert pair[1].local.to_list() == [{"batches": [{"x": 1.0}], "a": 1}]
    with pytest.raises(UsageError):  # the open row was that of rank 0
        pair[1].record_batch("x", 2.0)
    sync_all(pair)
    assert pair[0].digest() == pair[1].digest()
    assert pair[1].ranks[0][0, "only"] == "of rank 0"
    assert "only" not in pair[1].ranks[1][0]
    pair[1].new_epoch(a="mine")
    sync_all(pair)
    assert pair[0].per_rank(1, "a") == {0: "second", 1: "mine"}  # numbered on from the file


def test_what_is_recorded_after_attaching_is_not_left_to_anybody(tmp_path: Path) -> None:
    """Attached again as another rank, a history of this process keeps its records."""
    History(rank=0, world_size=2).save(tmp_path / "run.synchist")
    h = History.load(tmp_path / "run.synchist")
    h.attach(store=MemoryStore(), rank=1, world_size=2)
    h.new_epoch(a=1)
    h.attach(store=MemoryStore(), rank=0, world_size=2)
    assert h.local.to_list() == [{"batches": [], "a": 1}]


def test_it_is_enough_that_one_rank_has_the_file(sync_all: Sync, tmp_path: Path) -> None:
    h = History()
    h.new_epoch(a=1)
    h.save(tmp_path / "run.synchist")
    store = MemoryStore()
    pair = [History(timeout=30), History.load(tmp_path / "run.synchist", timeout=30)]
    for rank, each in enumerate(pair):
        each.attach(store=store, rank=rank, world_size=2)
    sync_all(pair)
    assert pair[0] == pair[1] == h


def test_a_value_that_ranks_cannot_share_is_refused_before_attaching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synchist.intake.MAX_VALUE_BYTES", 1000)
    for world_size in (1, 2):
        History(rank=0, world_size=world_size).save(tmp_path / "run.synchist")
        h = History.load(tmp_path / "run.synchist")
        h.new_epoch()
        if world_size == 1:
            h.record("a", bytes(2000))
        else:
            with pytest.raises(TooLargeError):
                h.record("a", bytes(2000))


def test_a_history_of_one_rank_can_be_loaded_by_several(sync_all: Sync, tmp_path: Path) -> None:
    h = History()
    h.new_epoch(a=1)
    h.save(tmp_path / "run.synchist")
    store = MemoryStore()
    pair = [History.load(tmp_path / "run.synchist", timeout=30) for _ in range(2)]
    for rank, each in enumerate(pair):
        each.attach(store=store, rank=rank, world_size=2)
        each.new_epoch(a=rank)
    sync_all(pair)
    assert pair[0].digest() == pair[1].digest()
    assert pair[1].per_rank(1, "a") == {0: 0, 1: 1}


def test_cleared_histories_meet_after_loading(world: World, sync_all: Sync, tmp_path: Path) -> None:
    """How often a history was cleared comes back, so it fits to those that were not loaded."""
    histories = world(2)
    for h in histories:
        h.new_epoch(a=1)
    sync_all(histories)
    for h in histories:
        h.clear()
        h.new_epoch(b=2)
    sync_all(histories)
    histories[1].save(tmp_path / "run.synchist")
    store = MemoryStore()
    pair = [histories[0], History.load(tmp_path / "run.synchist", timeout=30)]
    for rank, h in enumerate(pair):
        h.attach(store=store, rank=rank, world_size=2)
        h.new_epoch(c=3)
    sync_all(pair)
    assert pair[0].digest() == pair[1].digest()
    assert len(pair[1]) == 2


def test_saving_is_no_round_and_loading_needs_no_store(world: World, tmp_path: Path) -> None:
    """Any rank may save at any time, whatever the others do."""
    h = world(2)[1]
    h.new_epoch(a=1)
    h.save(tmp_path / "run.synchist")
    loaded = History.load(tmp_path / "run.synchist")
    assert (loaded.rank, loaded.world_size) == (1, 2)
    with pytest.raises(UsageError, match="attach"):
        loaded.sync()


def test_tensors_that_are_still_on_their_way_are_saved(tmp_path: Path) -> None:
    h = History(rank=0, world_size=2)
    h.new_epoch(v=torch.tensor(1.5))
    h.new_batch(x=torch.arange(3))
    h.save(tmp_path / "run.synchist")
    loaded = History.load(tmp_path / "run.synchist")
    assert loaded.local[-1, "v"] == 1.5
    assert torch.equal(loaded.local[-1, "batches", 0, "x"], torch.arange(3))


def test_what_is_no_file_of_synchist_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_text('{"epochs": []}')
    with pytest.raises(CorruptDataError, match="no file of synchist") as caught:
        History.load(path)
    assert (caught.value.path, caught.value.offset) == (str(path), 0)
