"""One process: recording, reading, views, attributes, leaving; and what length and text say."""

from __future__ import annotations

import copy
import gc
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from synchist import History, MemoryStore, SynchistWarning, UsageError

Sync = Callable[[Sequence[History]], None]
World = Callable[..., list[History]]
AtOnce = Callable[..., list[Any]]


def test_a_new_history_is_empty() -> None:
    h = History()
    assert (len(h), bool(h), list(h), h.to_list()) == (0, False, [], [])
    assert (h.rank, h.world_size) == (0, 1)
    assert dict(h.attributes) == {}
    assert h == History()


def test_with_one_process_sync_does_nothing_and_all_works() -> None:
    with History() as h:
        for epoch in range(3):
            h.new_epoch(lr=0.1)
            for loss in (2.0, 1.0):
                h.new_batch(loss=loss)
            h.record("valid_loss", 1.0 / (1 + epoch))
            h.sync()
        assert h.epochs_since_best("valid_loss") == 0
    assert h[:, "valid_loss"] == [1.0, 0.5, 1 / 3]
    assert h.per_rank(-1, "lr") == {0: 0.1}
    assert h.ranks[0].to_list() == h.to_list() == h.local.to_list() == h.synced.to_list()
    h.close()
    h.abort("nothing to abort")
    h.new_epoch()
    h.sync()


def test_a_store_with_one_rank_is_never_touched() -> None:
    store = MemoryStore()
    with History(store=store, rank=0, world_size=1) as h:
        h.new_epoch(a=1)
        h.sync()
        assert h.agree("b", 2) == 2
    assert store.num_keys() == 0


def test_iterating_gives_the_epochs_as_dicts() -> None:
    h = History()
    h.new_epoch(a=1)
    h.new_batch(x=2)
    h.new_epoch()
    assert [epoch.get("a") for epoch in h] == [1, None]
    assert [epoch["batches"] for epoch in h] == [[{"x": 2}], []]
    assert list(h) == h.to_list()
    assert {"batches": [], "z": 1} not in list(h)


def test_writing_to_the_open_row_works_until_the_next_one_opens(
    world: World, sync_all: Sync
) -> None:
    histories = world(2)
    h = histories[0]
    h.new_epoch()
    h.new_batch(x=1.0)
    h.record("v", 1)
    for round_ in range(3):
        sync_all(histories)
        h.record_batch("x", float(round_))
        h.record_batch(f"late{round_}", round_)
        h.record("v", round_)
    sync_all(histories)
    expected = [{"batches": [{"x": 2.0, "late0": 0, "late1": 1, "late2": 2}], "v": 2}]
    assert [other.to_list() for other in histories] == [expected] * 2
    h.new_batch()
    h.record_batch("x", 9.0)
    sync_all(histories)
    assert histories[1][-1, "batches", :, "x"] == [2.0, 9.0]


def test_an_epoch_or_row_without_a_value_is_there_on_every_rank(
    world: World, sync_all: Sync
) -> None:
    histories = world(2)
    histories[1].new_epoch()
    sync_all(histories)
    assert [h.to_list() for h in histories] == [[{"batches": []}]] * 2
    histories[1].new_batch()
    sync_all(histories)
    histories[1].new_batch()
    histories[1].new_batch(x=1)
    sync_all(histories)
    assert [h.to_list() for h in histories] == [[{"batches": [{}, {}, {"x": 1}]}]] * 2
    assert histories[0].digest() == histories[1].digest()


def test_local_shows_pending_records_over_the_synced_ones_and_only_of_this_rank(
    world: World, sync_all: Sync
) -> None:
    histories = world(2, reduce={"a": "first"})
    for rank, h in enumerate(histories):
        h.new_epoch(a=rank)
        h.new_batch(x=rank)
    sync_all(histories)
    h = histories[1]
    h.record("a", 7)
    h.record_batch("y", 8)
    h.new_batch(x=9)
    assert h.local.to_list() == [{"batches": [{"x": 1, "y": 8}, {"x": 9}], "a": 7}]
    assert h.synced.to_list() == [{"batches": [{"x": 0}, {"x": 1}], "a": 0}]
    assert h.ranks[1].to_list() == [{"batches": [{"x": 1}], "a": 1}]
    assert h.local.reduce("x", "sum") == 10
    assert h.local.per_rank(-1, "a") == {1: 7}


def test_a_view_shows_what_is_there_when_it_is_read() -> None:
    h = History()
    views = [h.local, h.synced, h.ranks[0]]
    h.new_epoch(a=1)
    for view in views:
        assert view[-1, "a"] == 1
        assert (len(view), bool(view)) == (1, True)


def test_reading_between_two_writes_changes_nothing() -> None:
    read_often, read_once = History(), History()
    for h in (read_often, read_once):
        for epoch in range(2):
            h.new_epoch(lr=epoch)
            for batch in range(3):
                h.new_batch(loss=batch)
                if h is read_often:
                    h[-1, "batches", -1, "loss"], h.digest(), h.to_list(), len(h), repr(h)
                    h.local[-1], h.best("lr"), copy.deepcopy(h)
                h.record_batch("loss", float(batch))
                h.record_batch("n", 2)
    assert read_often.digest() == read_once.digest()
    assert read_often.to_list() == read_once.to_list()


# -- attributes ------------------------------------------------------------------------------------


def test_attributes_are_a_mapping_to_read_and_to_assign() -> None:
    h = History()
    h.attributes["lr"] = 0.1
    h.attributes.update(seed=1, tags=["a"])
    assert dict(h.attributes) == {"lr": 0.1, "seed": 1, "tags": ["a"]}
    assert (len(h.attributes), "lr" in h.attributes, "x" in h.attributes) == (3, True, False)
    assert h.attributes.get("x") is None
    h.attributes["lr"] = 0.2
    assert h.attributes["lr"] == 0.2
    h.attributes["tags"].append("b")
    assert h.attributes["tags"] == ["a"]
    assert "'lr': 0.2" in repr(h.attributes)


def test_attributes_can_be_recorded_before_the_first_epoch_and_are_synced(
    world: World, sync_all: Sync
) -> None:
    histories = world(2, reduce={"seeds": lambda values: values})
    for rank, h in enumerate(histories):
        h.attributes["seeds"] = rank
    histories[1].attributes["only"] = "here"
    sync_all(histories)
    for h in histories:
        assert dict(h.attributes) == {"seeds": [0, 1], "only": "here"}
        assert dict(h.ranks[1].attributes) == {"seeds": 1, "only": "here"}
        assert len(h) == 0
    histories[0].attributes["only"] = "there"
    sync_all(histories)
    assert dict(histories[1].ranks[0].attributes) == {"seeds": 0, "only": "there"}


# -- text ------------------------------------------------------------------------------------------


def test_the_repr_says_how_much_is_there_which_rank_and_whether_something_is_pending(
    world: World, sync_all: Sync
) -> None:
    h = History(name="digits")
    h.new_epoch()
    h.new_batch()
    assert "digits" in repr(h)
    assert "1 epoch" in repr(h)
    assert "1 batch" in repr(h)
    histories = world(2)
    histories[1].new_epoch()
    assert "rank 1 of 2" in repr(histories[1])
    assert "unsynced" in repr(histories[1])
    sync_all(histories)
    assert "unsynced" not in repr(histories[1])


# -- leaving and starting afresh -------------------------------------------------------------------


def test_clear_forgets_everything_and_numbers_anew() -> None:
    h = History(reduce={"a": "max"})
    h.new_epoch(a=1)
    h.new_batch(x=1.0)
    h.attributes["b"] = 2
    h.clear()
    assert h == History()
    assert (len(h), h.to_list(), h.local.to_list(), dict(h.attributes)) == (0, [], [], {})
    with pytest.raises(UsageError):
        h.record_batch("x", 1.0)
    with pytest.raises(UsageError):
        h.record("a", 1)
    h.new_epoch(a=5)
    assert h[-1, "a"] == 5
    assert h.best("a").value == 5


def test_close_warns_of_records_that_were_never_synced(world: World, at_once: AtOnce) -> None:
    histories = world(2)
    at_once([h.sync for h in histories])
    histories[1].new_epoch(a=1)
    with pytest.warns(SynchistWarning, match=r"rank 1.*never synced"):
        histories[1].close()
    histories[0].close()
    assert histories[1].local[-1, "a"] == 1


def test_after_close_reading_and_recording_work_and_syncing_says_what_to_do(
    world: World, at_once: AtOnce
) -> None:
    histories = world(2)
    for h in histories:
        h.new_epoch(a=1)
    at_once([h.sync for h in histories])
    assert at_once([h.close for h in histories]) == [None, None]
    for h in histories:
        h.close()
        assert h[-1, "a"] == 1
        h.record("b", 2)
        with pytest.raises(UsageError, match="closed"):
            h.sync()
    assert at_once([h.__enter__ for h in histories]) == histories
    at_once([h.sync for h in histories])
    assert histories[0][-1, "b"] == 2


def test_with_leaves_by_close_and_on_an_exception_by_abort_which_others_see(
    world: World, at_once: AtOnce
) -> None:
    histories = world(2)

    def fail() -> None:
        with histories[1] as h:
            h.new_epoch(a=1)
            raise ZeroDivisionError("division by zero")

    def wait() -> None:
        with histories[0] as h:
            h.sync()

    start = time.monotonic()
    other, own = at_once([wait, fail])
    assert isinstance(own, ZeroDivisionError)
    assert type(other).__name__ == "RankFailedError"
    assert other.rank == 1
    assert "ZeroDivisionError: division by zero" in other.reason
    assert time.monotonic() - start < 10
    assert histories[1].local[-1, "a"] == 1


class Odd(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __getitem__(self, name: str) -> Any:
        return {"a": 1, "b": 2.0}[name]

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __len__(self) -> int:
        return 2


def test_any_mapping_can_be_recorded() -> None:
    h = History()
    h.new_epoch(Odd())
    h.new_batch(Odd())
    h.record_batch(Odd())
    h.record(Odd())
    assert h.to_list() == [{"batches": [{"a": 1, "b": 2.0}], "a": 1, "b": 2.0}]


def test_writing_never_talks(world: World) -> None:
    """Nothing but `sync`, `agree`, `close` and entering touches the store."""

    class Silent:
        def talk(self, *args: Any) -> Any:
            raise AssertionError("talked")

        set = get = wait = delete_key = talk

    h = History(store=Silent(), rank=1, world_size=2)
    h.new_epoch(a=1)
    h.new_batch(x=1.0)
    h.record_batch("x", 2.0)
    h.record("a", 2)
    h.attributes["b"] = 3
    h.local.to_list(), h.synced.to_list(), h.digest(), len(h), repr(h), copy.deepcopy(h)
    h.clear()


def test_a_history_that_is_dropped_is_gone_at_once() -> None:
    """Not at the next garbage collection: it may hold gigabytes."""
    h = History()
    h.new_epoch(valid_loss=1.0)
    h.new_batch(loss=1.0)
    assert h.best("valid_loss").epoch == 0
    dropped = weakref.ref(h)
    gc.disable()
    try:
        del h
        assert dropped() is None
    finally:
        gc.enable()
