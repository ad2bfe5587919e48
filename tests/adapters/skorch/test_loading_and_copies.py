"""Loading, saving and copying a SkorchHistory."""

from __future__ import annotations

import copy
import gc
import io
import json
import pickle
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from skorch.history import History

from synchist import DivergenceError, MemoryStore, SynchistWarning, UnsupportedTypeError, UsageError
from synchist_skorch import SkorchHistory

World = Callable[..., list[SkorchHistory]]
AtOnce = Callable[..., list[Any]]
SyncAll = Callable[[Sequence[SkorchHistory]], None]

# In no order that (batch, rank) could make.
LOADED = [
    {"batches": [{"loss": 3.0}, {"loss": 1.0}, {"valid": 2.0}], "epoch": 1, "best": True},
    {"batches": [], "epoch": 2},
]


# -- loading ---------------------------------------------------------------------------------------


def test_loaded_epochs_keep_their_order_and_training_goes_on_behind_them(
    world: World, sync_all: SyncAll
) -> None:
    histories = world(2)
    for history in histories:
        history.new_epoch()
        history.record("epoch", "gone")
        history[:] = LOADED
        assert history == LOADED
    sync_all(histories)
    for history in histories:
        assert history == LOADED
        assert history[0, "batches", -1] == {"valid": 2.0}  # everybody's own
        history.record("more", history.rank)  # in the last one
        history.new_batch()
        history.record_batch("loss", 5.0 + history.rank)
        history.new_epoch()
        history.record("epoch", len(history))
    sync_all(histories)
    for history in histories:
        assert history[:, "epoch"] == [1, 2, 3]
        assert history.per_rank(1, "more") == {0: 0, 1: 1}
        assert history[1, "batches"] == [{"loss": 5.0}, {"loss": 6.0}]
        assert history[1, "batches", -1, "loss"] == 5.0 + history.rank
        del history[0]["best"]
    sync_all(histories)
    for history in histories:
        assert "best" not in history[0]


def test_rows_behind_loaded_ones_stay_behind_them(world: World, sync_all: SyncAll) -> None:
    histories = world(2)
    for history in histories:
        history[:] = LOADED[:1]
        for batch in range(2):
            history.new_batch()
            history.record_batch("loss", 10.0 * history.rank + batch)
    sync_all(histories)
    for history in histories:
        assert history[0, "batches", :, "loss"] == [3.0, 1.0, 0.0, 10.0, 1.0, 11.0]
        assert history[0, "batches", 3, "loss"] == 10.0 * history.rank


def test_a_list_given_at_the_start_is_loaded(sync_all: SyncAll) -> None:
    store = MemoryStore()
    histories = [
        SkorchHistory(LOADED, store=store, rank=rank, world_size=2, timeout=30) for rank in (0, 1)
    ]
    sync_all(histories)
    assert histories[0] == histories[1] == LOADED
    assert histories[0].digest() == histories[1].digest()


def test_ranks_that_loaded_different_histories_all_say_so(world: World, at_once: AtOnce) -> None:
    for second in ([{"batches": [], "epoch": 7}], None):
        histories = world(2)
        histories[0][:] = LOADED
        if second is None:
            histories[1].new_epoch()
            histories[1].record("epoch", 1)
        else:
            histories[1][:] = second
        for outcome in at_once([history.sync for history in histories]):
            assert isinstance(outcome, DivergenceError)
            assert "ranks loaded different histories (rank 0: " in str(outcome)
            assert "load the same file on every rank" in str(outcome)


def test_what_ranks_could_not_share_is_refused_before_anything_is_lost(world: World) -> None:
    history, _ = world(2)
    history.new_epoch()
    for epochs, error in (
        ([1, 2, 3], UsageError),
        ([{"batches": [1]}], UsageError),
        ([{"x": object()}], UnsupportedTypeError),
    ):
        with pytest.raises(error):
            history[:] = epochs
    assert history == [{"batches": []}]


# -- files -----------------------------------------------------------------------------------------


def test_a_file_has_what_was_synced_and_ones_own_pending_records(
    world: World, sync_all: SyncAll, tmp_path: Path
) -> None:
    """It is written on the main process only, so nothing can be waited for."""
    histories = world(2)
    for history in histories:
        history.new_epoch()
        history.new_batch()
        history.record_batch("loss", float(history.rank))
    sync_all(histories)
    for history in histories:
        history.record("dur", 0.5 + history.rank)
        history.new_epoch()
    histories[0].to_file(tmp_path / "history.json")
    expected = [{"batches": [{"loss": 0.0}, {"loss": 1.0}], "dur": 0.5}, {"batches": []}]
    assert json.loads((tmp_path / "history.json").read_text()) == expected
    for cls in (History, SkorchHistory):
        assert cls.from_file(str(tmp_path / "history.json")) == expected
    file = io.StringIO((tmp_path / "history.json").read_text())
    assert SkorchHistory.from_file(file) == expected
    assert file.closed  # as skorch does it


@pytest.mark.parametrize("several", [False, True])
def test_a_value_that_json_cannot_hold_is_named_and_the_old_file_stays(
    world: World, tmp_path: Path, several: bool
) -> None:
    history = world(2)[0] if several else SkorchHistory()
    history.new_epoch()
    history.new_epoch()
    history.record("score", np.float64(0.5))  # a float
    path = tmp_path / "history.json"
    history.to_file(path)
    before = path.read_text()
    history.new_batch()
    history.new_batch()
    history.record_batch("loss", np.float32(1))
    with pytest.raises(UnsupportedTypeError, match="JSON cannot hold 'loss' of epoch 1, batch 1"):
        history.to_file(path)
    history.record_batch("loss", 1.0)
    history[0]["f1"] = {(1, 2)}
    with pytest.raises(TypeError, match="JSON cannot hold 'f1' of epoch 0: Object of type set"):
        history.to_file(str(path))
    assert path.read_text() == before


def test_entries_that_are_no_epochs_are_named_too(tmp_path: Path) -> None:
    """skorch takes any list."""
    with pytest.raises(UnsupportedTypeError, match="JSON cannot hold epoch 1"):
        SkorchHistory([1, {2}]).to_file(tmp_path / "history.json")
    deep: list[Any] = []
    deep.append(deep)
    with pytest.raises(UnsupportedTypeError, match="JSON cannot hold 'x' of epoch 0"):
        SkorchHistory([{"x": deep, "batches": [{"y": 1}]}]).to_file(tmp_path / "history.json")


# -- copies ----------------------------------------------------------------------------------------

COPIES = pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, copy.copy, lambda history: pickle.loads(pickle.dumps(history))],
    ids=["deepcopy", "copy", "pickle"],
)


@COPIES
def test_a_copy_goes_on_over_the_same_store(
    world: World, sync_all: SyncAll, duplicate: Callable[[SkorchHistory], SkorchHistory]
) -> None:
    histories = world(2)
    for history in histories:
        history[:] = LOADED
        history.new_epoch()
        history.new_batch()
        history.record_batch("loss", float(history.rank))
    sync_all(histories)
    for history in histories:
        del history[1]
        history[0]["edited"] = np.arange(2)
        history.record("dur", history.rank)  # pending
    copies = [duplicate(history) for history in histories]
    for number, group in enumerate((copies, histories)):
        for history in group:
            assert len(history) == 2
            history.record_batch("more", number)
            history.new_batch()
            history.record_batch("loss", 10.0 + history.rank)
        sync_all(group)
        for history in group:
            assert history[-1, "batches", :, "loss"] == [0.0, 1.0, 10.0, 11.0]
            assert history[-1, "batches", :2, "more"] == [number, number]
            assert history[-1, "batches", -1, "loss"] == 10.0 + history.rank
            assert history.per_rank(-1, "dur") == {0: 0, 1: 1}
            assert history[0]["edited"].tolist() == [0, 1]
            assert type(history) is SkorchHistory
    for history in copies:  # a second fit
        history.clear()
        history.new_epoch()
        history.record("epoch", history.rank)
    sync_all(copies)
    assert copies[0].per_rank(0, "epoch") == {0: 0, 1: 1}


def test_a_copy_that_finds_no_group_goes_on_alone_and_says_so(
    world: World, sync_all: SyncAll
) -> None:
    """As in another process, to look at a trained net and fit it again."""
    histories = world(2)
    for history in histories:
        history.new_epoch()
        history.new_batch()
        history.record_batch("loss", float(history.rank))
    sync_all(histories)
    pickled = pickle.dumps(histories[1])
    expected = histories[1].to_list()
    digest = histories[1].digest()
    del histories, history
    gc.collect()  # with it, the store
    alone = pickle.loads(pickled)
    assert alone == expected
    assert alone[-1, "batches", -1, "loss"] == 1.0
    assert alone.digest() == digest
    alone.new_epoch()
    with pytest.warns(SynchistWarning, match="history of 2 ranks goes on in one process"):
        alone.sync()
    assert alone.world_size == 1
    alone.record("x", object())
    alone.sync()
    assert alone[0] == expected[0]
    assert len(alone) == 2


def test_a_copy_can_be_attached_as_any_rank(world: World, sync_all: SyncAll) -> None:
    """Rank 0 saves the net; every rank loads it and trains on."""
    histories = world(2)
    for history in histories:
        history.new_epoch()
        history.new_batch()
        history.record_batch("loss", float(history.rank))
        history.record("dur", history.rank)
    sync_all(histories)
    histories[0].record("pending", 1)
    copies = [pickle.loads(pickle.dumps(histories[0])) for _ in range(3)]
    store = MemoryStore()
    for rank, history in enumerate(copies):
        if rank == 0:
            history.attach(store=store, rank=rank, world_size=3)
            assert history[-1, "pending"] == 1
        else:
            with pytest.warns(SynchistWarning, match="rank 0 has to bring them"):
                history.attach(store=store, rank=rank, world_size=3)
            assert "pending" not in history[-1]
        assert history[-1, "batches", :, "loss"] == [0.0, 1.0]
        assert history[-1, "dur"] == (0 if rank == 2 else rank)
        history.new_epoch()
        history.new_batch()
        history.record_batch("loss", 10.0 * rank)
    sync_all(copies)
    for rank, history in enumerate(copies):
        assert history[0, "pending"] == 1
        assert history[0, "batches", :, "loss"] == [0.0, 1.0]
        assert history[1, "batches", :, "loss"] == [0.0, 10.0, 20.0]
        assert history[1, "batches", -1, "loss"] == 10.0 * rank


def test_a_subclass_keeps_its_own_attributes_when_copied() -> None:
    class Mine(SkorchHistory):
        note = ""

    mine = Mine(LOADED)
    mine.note = "kept"
    copied = copy.deepcopy(mine)
    assert (type(copied), copied.note, copied) == (Mine, "kept", LOADED)
    assert copied[0] is not mine[0]


def test_a_history_that_is_dropped_lets_go_of_its_store(world: World, sync_all: SyncAll) -> None:
    histories = world(2)
    for history in histories:
        history.new_epoch()
        history.new_batch()
    sync_all(histories)
    gone = [weakref.ref(history) for history in histories]
    epoch = histories[0][-1]
    gc.disable()
    try:
        del histories, history
        assert [ref() for ref in gone] == [None, None]
    finally:
        gc.enable()
    with pytest.raises(UsageError, match="is gone"):
        epoch["x"] = 1
    assert epoch == {"batches": [{}, {}]}
