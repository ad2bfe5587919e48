"""A history in a checkpoint: `state_dict` and `load_state_dict`."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from synchist import CorruptDataError, History, MemoryStore, SynchistWarning, UsageError

World = Callable[..., list[History]]
SyncAll = Callable[[Sequence[History]], None]


def epoch(h: History, number: int) -> None:
    h.new_epoch(lr=0.1, who=(h.rank, number))
    for batch in range(3):
        h.new_batch(loss=float(batch), batch_size=32)


def through_torch(state: Any) -> Any:
    """As people keep checkpoints, and load them where nothing in them may run."""
    file = io.BytesIO()
    torch.save({"history": state, "epoch": 3}, file)
    file.seek(0)
    return torch.load(file, weights_only=True)["history"]


def test_what_is_loaded_is_what_was_there_and_recording_goes_on() -> None:
    h = History(reduce={"f1": "mean"})
    epoch(h, 0)
    h.record("f1", 0.5, weight=3)
    h.attributes["note"] = "x"
    loaded = History(timeout=7)
    loaded.new_epoch(other=1)
    loaded.load_state_dict(through_torch(h.state_dict()))
    assert loaded == h
    assert loaded.timeout == 7
    assert loaded[-1, "f1"] == 0.5
    for history in (h, loaded):
        history.record_batch("acc", 1.0)  # the open batch is open still
        epoch(history, 1)
    assert loaded == h
    assert len(loaded) == 2


def test_loading_does_not_touch_what_it_was_taken_from() -> None:
    h = History()
    epoch(h, 0)
    state = h.state_dict()
    loaded = History()
    loaded.load_state_dict(state)
    epoch(loaded, 1)
    assert len(h) == 1
    again = History()
    again.load_state_dict(state)
    assert again == h


@pytest.mark.parametrize("synced_before", [False, True])
def test_every_rank_loads_its_own_state(
    world: World, sync_all: SyncAll, synced_before: bool
) -> None:
    """Pending records are pending again on their rank; what was there before is forgotten."""
    histories = world(2)
    for h in histories:
        epoch(h, 0)
    sync_all(histories)
    for h in histories:
        epoch(h, 1)
    states = [through_torch(h.state_dict()) for h in histories]
    sync_all(histories)
    others = world(2)
    if synced_before:
        for h in others:
            h.new_epoch(something=1)
        sync_all(others)
    for h, state in zip(others, states, strict=True):
        h.load_state_dict(state)
        assert len(h) == 1
    sync_all(others)
    assert {h.digest() for h in others} == {histories[0].digest()}


def test_all_ranks_load_what_rank_0_saved(world: World, sync_all: SyncAll) -> None:
    """What rank 0 had pending is its own to bring; the others say that they drop it."""
    histories = world(2)
    for h in histories:
        epoch(h, 0)
    sync_all(histories)
    epoch(histories[0], 1)
    state = histories[0].state_dict()
    zero, one = world(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zero.load_state_dict(state)
    with pytest.warns(SynchistWarning, match="had not synced"):
        one.load_state_dict(state)
    sync_all([zero, one])
    assert zero.digest() == one.digest()
    assert len(one) == 2
    assert one.per_rank(1, "who") == {0: (0, 1)}


def test_the_others_receive_what_only_rank_0_loads(
    world: World, at_once: Callable[..., list[Any]], sync_all: SyncAll
) -> None:
    """With the rule that `agree` had taught it."""
    histories = world(2)
    for h in histories:
        epoch(h, 0)
    assert at_once([lambda h=h: h.agree("sum", h.rank + 1, reduce="sum") for h in histories]) == [
        3,
        3,
    ]
    resumed = world(3)
    resumed[0].load_state_dict(through_torch(histories[0].state_dict()))
    assert at_once([h.__enter__ for h in resumed]) == resumed
    assert [len(h) for h in resumed] == [1, 1, 1]
    assert [h[0, "sum"] for h in resumed] == [3, 3, 3]
    for h in resumed:
        epoch(h, 1)
    sync_all(resumed)
    assert len({h.digest() for h in resumed}) == 1


def test_a_run_of_several_ranks_can_be_looked_at_by_one_process(
    world: World, sync_all: SyncAll
) -> None:
    histories = world(2)
    for h in histories:
        epoch(h, 0)
    sync_all(histories)
    alone = History()
    alone.load_state_dict(histories[0].state_dict())
    assert alone.digest() == histories[0].digest()
    epoch(alone, 1)
    assert alone.world_size == 1
    assert len(alone) == 2


@pytest.mark.parametrize("state", [None, {}, {"synchist": "text"}, {"other": b""}, [1]])
def test_what_is_no_state_is_refused_and_nothing_is_lost(state: Any) -> None:
    h = History()
    epoch(h, 0)
    digest = h.digest()
    with pytest.raises(UsageError, match=r"state_dict\(\)"):
        h.load_state_dict(state)
    assert h.digest() == digest


def test_a_damaged_state_is_refused_and_nothing_is_lost(sync_all: SyncAll) -> None:
    store = MemoryStore()
    histories = [History(store=store, rank=r, world_size=2, timeout=30) for r in (0, 1)]
    for h in histories:
        epoch(h, 0)
    state = histories[0].state_dict()
    data = state["synchist"]
    for damaged in (b"", data[:-1], data[:40] + b"?" + data[41:]):
        with pytest.raises(CorruptDataError, match="the state of a history"):
            histories[0].load_state_dict({"synchist": damaged})
    sync_all(histories)
    assert histories[1].per_rank(0, "who") == {0: (0, 0), 1: (1, 0)}


def test_accelerate_takes_it_along(tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    h = History()
    epoch(h, 0)
    accelerator.register_for_checkpointing(h)
    accelerator.save_state(str(tmp_path))
    digest = h.digest()
    epoch(h, 1)
    accelerator.load_state(str(tmp_path))
    assert h.digest() == digest


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # one process is meant
def test_torch_distributed_checkpoint_takes_it_along(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    h = History()
    epoch(h, 0)
    dcp.save({"history": h, "weight": torch.ones(2)}, checkpoint_id=tmp_path, no_dist=True)
    loaded = History()
    dcp.load({"history": loaded, "weight": torch.zeros(2)}, checkpoint_id=tmp_path, no_dist=True)
    assert loaded == h
