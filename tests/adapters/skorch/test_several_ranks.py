"""SkorchHistory on several ranks: what each of them reads, before and after a sync."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from synchist import UnsupportedTypeError, UsageError
from synchist_skorch import SkorchHistory

World = Callable[..., list[SkorchHistory]]
AtOnce = Callable[..., list[Any]]
SyncAll = Callable[[Sequence[SkorchHistory]], None]


def record_epoch(history: SkorchHistory, batches: int, **values: Any) -> None:
    """Batch values say whose they are: 10 * rank + batch."""
    history.new_epoch()
    for batch in range(batches):
        history.new_batch()
        history.record_batch("loss", 10.0 * history.rank + batch)
    for name, value in values.items():
        history.record(name, value)


# -- reading ---------------------------------------------------------------------------------------


def test_rows_come_in_skorchs_order_after_a_sync_and_are_ones_own_before(
    world: World, sync_all: SyncAll
) -> None:
    histories = world(3)
    for history in histories:
        record_epoch(history, batches=3 - history.rank)
    own = [history[-1, "batches", :, "loss"] for history in histories]
    assert own == [[0.0, 1.0, 2.0], [10.0, 11.0], [20.0]]
    sync_all(histories)
    for history in histories:
        assert history[-1, "batches", :, "loss"] == [0.0, 10.0, 20.0, 1.0, 11.0, 2.0]
        assert history[-1]["batches"] == history[-1, "batches"]
        assert history[:, "batches", 1:3, "loss"] == [[10.0, 20.0]]


def test_an_integer_batch_index_counts_this_ranks_own_rows(world: World, sync_all: SyncAll) -> None:
    histories = world(2)
    for history in histories:
        record_epoch(history, batches=2)
        record_epoch(history, batches=1)
    for synced in (False, True):
        if synced:
            sync_all(histories)
        for rank, history in enumerate(histories):
            assert history[-1, "batches", -1, "loss"] == 10.0 * rank
            assert history[0, "batches", 1] == {"loss": 10.0 * rank + 1}
            assert history[:, "batches", 0, ("loss", "loss")] == [(10.0 * rank, 10.0 * rank)] * 2
            with pytest.raises(IndexError):
                history[1, "batches", 1]
            with pytest.raises(IndexError):
                history[2, "batches", 1]


def test_reading_in_the_middle_of_a_batch_changes_nothing(world: World, sync_all: SyncAll) -> None:
    """skorch's BatchScoring and ProgressBar read between two records of one batch."""
    histories = world(2)
    for rank, history in enumerate(histories):
        history.new_epoch()
        for batch in range(2):
            history.new_batch()
            history.record_batch("loss", 1.0 + rank)
            assert history[-1, "batches", -1, "loss"] == 1.0 + rank
            assert len(history[-1]["batches"]) == batch + 1
            history.record_batch("lr", 10.0 + rank)
    sync_all(histories)
    rows = [{"loss": 1.0, "lr": 10.0}, {"loss": 2.0, "lr": 11.0}] * 2
    assert [history[-1, "batches"] for history in histories] == [rows, rows]


def test_an_epoch_value_is_ones_own_or_that_of_the_lowest_rank_that_has_one(
    world: World, sync_all: SyncAll
) -> None:
    histories = world(3)
    for history in histories:
        history.new_epoch()
        history.record("dur", float(history.rank))
        if history.rank > 0:
            history.record("late", f"of rank {history.rank}" if history.rank < 2 else "of rank 1")
    with pytest.raises(KeyError):
        histories[0][-1, "late"]
    sync_all(histories)
    assert [history[-1, "dur"] for history in histories] == [0.0, 1.0, 2.0]
    assert [history[-1, "late"] for history in histories] == ["of rank 1"] * 3
    for history in histories:
        assert history.per_rank(-1, "dur") == {0: 0.0, 1: 1.0, 2: 2.0}
        assert history.per_rank(0, "late") == {1: "of rank 1", 2: "of rank 1"}


def test_a_value_that_was_agreed_is_the_same_on_every_rank(world: World, at_once: AtOnce) -> None:
    histories = world(3)
    for history in histories:
        history.new_epoch()
    agreed = at_once(
        [
            lambda: histories[0].agree("score", 0.5, reduce="mean", weight=1),
            lambda: histories[1].agree("score", 1.0, reduce="mean", weight=3),
            lambda: histories[2].agree("score"),
        ]
    )
    assert agreed == [0.875] * 3
    for history in histories:
        history.record("score", 0.875)  # as skorch does; nothing new in it
    assert [history[-1, "score"] for history in histories] == [0.875] * 3
    at_once([history.sync for history in histories])
    for history in histories:
        assert history.per_rank(-1, "score") == {0: 0.5, 1: 1.0}
    with pytest.raises(KeyError, match="no rank brought a value"):
        raise at_once([lambda h=history: h.agree("none") for history in histories])[1]


def test_values_come_back_exactly_on_every_rank(world: World, sync_all: SyncAll) -> None:
    """Among them those that DistributedHistory refuses or changes."""
    values = {
        "np.float32": np.float32(0.1),
        "np.float64": np.float64(0.1),
        "np.int64": np.int64(3),
        "np.bool": np.bool_(True),
        "array": np.arange(3, dtype=np.int16),
        "tensor": torch.ones(2, dtype=torch.bfloat16),
        "tuple": (1, (2.5, None)),
        "bytes": b"x",
        "set": {1, 2},
        "complex": 1j,
        "int keys": {1: 2},
        "nan": float("nan"),
    }
    histories = world(2)
    for history in histories:
        history.new_epoch()
        history.new_batch()
        if history.rank == 0:
            for name, value in values.items():
                history.record(name, value)
                history.record_batch(name, value)
    sync_all(histories)
    for history in histories:
        for name, value in values.items():
            for found in (history[-1, name], history[-1, "batches", 0:1, name][0]):
                assert type(found) is type(value), name
                assert repr(found) == repr(value), name


def test_a_value_is_what_it_was_when_it_was_recorded(world: World, sync_all: SyncAll) -> None:
    histories = world(2)
    running = [torch.zeros(()) for _ in histories]
    seen = [np.zeros(2) for _ in histories]
    for history, total, array in zip(histories, running, seen, strict=True):
        history.new_epoch()
        for _ in range(3):
            history.new_batch()
            total += 1
            history.record_batch("running", total)
        history.record("array", array)
        history[-1]["again"] = array
        array += 1
    sync_all(histories)
    for history in histories:
        assert history[-1, "batches", :, "running"] == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
        assert [history[-1, "batches", i, "running"] for i in range(3)] == [1.0, 2.0, 3.0]
        assert history[-1, "array"].tolist() == history[-1]["again"].tolist() == [0.0, 0.0]


def test_what_cannot_be_stored_exactly_is_refused_where_it_is_recorded(world: World) -> None:
    history, _ = world(2)
    history.new_epoch()
    history.new_batch()
    for refused in (
        lambda: history.record("x", object()),
        lambda: history.record_batch("x", object()),
        lambda: history[-1].update(x=object()),
        lambda: history[-1]["batches"][-1].update(x=object()),
    ):
        with pytest.raises(UnsupportedTypeError, match="cannot record 'x'"):
            refused()
    assert history.to_list() == [{"batches": [{}]}]


def test_records_before_an_epoch_or_a_batch_are_refused(world: World) -> None:
    history, _ = world(2)
    with pytest.raises(ValueError, match="new_epoch"):
        history.record("x", 1)
    with pytest.raises(ValueError, match="new_epoch"):
        history.new_batch()
    history.new_epoch()
    with pytest.raises(UsageError, match="new_batch"):
        history.record_batch("x", 1)
    with pytest.raises(UsageError, match="batches"):
        history.record("batches", [])


def test_ranks_that_open_more_epochs_show_them_to_the_others(
    world: World, sync_all: SyncAll
) -> None:
    histories = world(2)
    for history in histories:
        for epoch in range(1 + 2 * history.rank):
            record_epoch(history, batches=1, epoch=epoch + 1)
    sync_all(histories)
    assert [history[:, "epoch"] for history in histories] == [[1, 2, 3]] * 2
    histories[0].record("mine", 1)  # still in the epoch that this rank opened last
    histories[0][2]["late"] = 2  # in one that it never opened
    sync_all(histories)
    for history in histories:
        assert ["mine" in epoch for epoch in history] == [True, False, False]
        assert history.per_rank(2, "late") == {0: 2}
        assert history[2, "late"] == 2
    for history in histories:
        record_epoch(history, batches=1, epoch=4)
    sync_all(histories)
    for history in histories:
        assert history[:, "epoch"] == ([1, 4, 3, 4] if history.rank == 0 else [1, 2, 3, 4])


# -- writing and deleting through what was read ----------------------------------------------------


def test_writes_through_an_epoch_reach_every_rank(world: World, sync_all: SyncAll) -> None:
    histories = world(2)
    for history in histories:
        record_epoch(history, batches=1)
    histories[0][-1]["k"] = 1
    histories[1][-1].update(u=2)
    histories[1][-1].setdefault("s", [3])
    histories[1][-1]["batches"][-1]["b"] = 4
    sync_all(histories)
    for history in histories:
        record_epoch(history, batches=1)
    histories[0][0]["late"] = (5,)
    histories[0][0]["k"] = 6
    histories[1][0] |= {"s": [7]}
    assert histories[0][0]["late"] == (5,)
    sync_all(histories)
    for history in histories:
        epoch = dict(history[0])
        assert epoch.pop("batches")[-1] == {"loss": 10.0, "b": 4}
        assert epoch == {"k": 6, "u": 2, "s": [7], "late": (5,)}
        assert history.per_rank(0, "k") == {0: 6}


def test_deleting_a_value_takes_back_ones_own(world: World, sync_all: SyncAll) -> None:
    histories = world(2)
    for history in histories:
        record_epoch(history, batches=1, both=history.rank, everywhere=1)
    sync_all(histories)
    for history in histories:
        record_epoch(history, batches=1)
    del histories[0][0]["both"]
    assert "both" not in histories[0][0]
    for history in histories:
        assert history[0].pop("everywhere") == 1
    with pytest.raises(KeyError):
        del histories[0][0]["both"]
    sync_all(histories)
    for history in histories:
        assert history[0, "both"] == 1  # the other rank's
        assert "everywhere" not in history[0]
        assert history.per_rank(0, "both") == {1: 1}
    histories[0][0]["both"] = "again"
    histories[1].record("x", 1)
    del histories[1][-1]["x"]
    histories[1].record("x", 2)  # recorded after it was deleted
    sync_all(histories)
    for history in histories:
        assert history.per_rank(0, "both") == {0: "again", 1: 1}
        assert history[-1, "x"] == 2


def test_a_deleted_epoch_is_deleted_on_every_rank(world: World, sync_all: SyncAll) -> None:
    histories = world(2)
    for history in histories:
        for epoch in range(4):
            record_epoch(history, batches=1, epoch=epoch)
    del histories[0][1]
    assert histories[0][:, "epoch"] == [0, 2, 3]
    assert histories[1][:, "epoch"] == [0, 1, 2, 3]
    for history in histories:  # the same one on both, though they count it differently
        del history[-1:]
    sync_all(histories)
    assert [history[:, "epoch"] for history in histories] == [[0, 2], [0, 2]]
    for history in histories:
        history.record("x", 1)  # the open epoch is gone: in the last one, as in skorch
        with pytest.raises(UsageError, match="new_epoch"):
            history.new_batch()
        record_epoch(history, batches=2, epoch=4)
    sync_all(histories)
    for history in histories:
        assert history[:, "epoch"] == [0, 2, 4]
        assert history[1, "x"] == 1
        assert history[-1, "batches", :, "loss"] == [0.0, 10.0, 1.0, 11.0]
    assert histories[1].pop(0)["epoch"] == 0
    sync_all(histories)
    assert [history[:, "epoch"] for history in histories] == [[2, 4], [2, 4]]


def test_a_rank_whose_open_epoch_was_deleted_by_another_goes_on(
    world: World, sync_all: SyncAll
) -> None:
    histories = world(2)
    for history in histories:
        record_epoch(history, batches=1, epoch=0)
        record_epoch(history, batches=1, epoch=1)
    sync_all(histories)
    del histories[0][1]
    histories[1].record("more", 1)
    sync_all(histories)
    assert [history.to_list() for history in histories] == [[histories[0][0]]] * 2
    for history in histories:
        record_epoch(history, batches=1, epoch=2)
    sync_all(histories)
    assert [history[:, "epoch"] for history in histories] == [[0, 2], [0, 2]]


def test_writes_that_no_sync_could_carry_are_refused(world: World, sync_all: SyncAll) -> None:
    histories = world(2)
    for history in histories:
        record_epoch(history, batches=2)
        record_epoch(history, batches=2)
    sync_all(histories)
    history = histories[0]
    before = copy.deepcopy(history.to_list())
    epoch, rows = history[-1], history[-1]["batches"]
    for refused in (
        lambda: rows.append({}),
        rows.clear,
        lambda: rows[0].update(x=1),
        lambda: rows[-1].update(x=1),
        lambda: rows[0].pop("loss"),
        lambda: epoch.update(batches=[]),
        lambda: epoch.pop("batches"),
        lambda: history.insert(0, {"batches": []}),
        history.reverse,
        lambda: history.sort(key=len),
        lambda: history.__setitem__(0, {"batches": []}),
        lambda: history.__imul__(2),
        lambda: history.append([]),
        lambda: history.append({"batches": [1]}),
    ):
        with pytest.raises(UsageError):
            refused()
    assert history.to_list() == before


def test_appended_epochs_are_this_ranks_records(world: World, sync_all: SyncAll) -> None:
    histories = world(2)
    for history in histories:
        history.append({"batches": [{"loss": 1.0}], "k": history.rank})
        history += [{"k": 2}]
        assert history is histories[history.rank]
    sync_all(histories)
    for history in histories:
        assert history[0, "batches"] == [{"loss": 1.0}] * 2
        assert history.per_rank(0, "k") == {0: 0, 1: 1}
        assert history[1] == {"batches": [], "k": 2}


def test_what_was_read_is_plain_when_copied(world: World) -> None:
    history, _ = world(2)
    record_epoch(history, batches=1)
    for copied in (copy.deepcopy(history[-1]), pickle.loads(pickle.dumps(history[-1]))):
        assert copied == {"batches": [{"loss": 0.0}]}
        assert type(copied) is dict
        assert type(copied["batches"]) is list
        assert type(copied["batches"][0]) is dict
    assert history == [{"batches": [{"loss": 0.0}]}]
    assert json.loads(json.dumps(history)) == history
