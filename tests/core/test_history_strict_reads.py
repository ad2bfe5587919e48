"""`NotSyncedError` exactly when it should be raised, against a rule worked out by brute force.

The rule: a read raises when a pending record of this rank has one of the (epoch, scope, name) it
asks for, or when a pending epoch or row would change which epochs or rows it selects. Values are
not compared.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synchist import History, NotSyncedError, SyncTimeoutError

Sync = Callable[[Sequence[History]], None]
World = Callable[..., list[History]]

NAMES = ["a", "b"]


class Side:
    """What one rank recorded, and how much of it is synced; nothing but sets and counts."""

    def __init__(self) -> None:
        self.epochs = 0
        self.rows: dict[int, int] = {}
        self.names: set[tuple[Any, ...]] = set()
        self.waiting: list[set[tuple[Any, ...]]] = [set()]  # the last one is being filled
        self.synced_epochs = 0
        self.synced_rows: dict[int, int] = {}
        self.marks: list[tuple[int, dict[int, int]]] = []

    def note(self, *key: Any) -> None:
        self.waiting[-1].add(key)

    def freeze(self) -> None:
        if len(self.waiting) == 1:
            self.marks.append((self.epochs, dict(self.rows)))
            self.waiting.append(set())

    def synced(self) -> None:
        self.freeze()
        self.waiting.pop(0)
        self.synced_epochs, self.synced_rows = self.marks.pop()

    @property
    def pending(self) -> set[tuple[Any, ...]]:
        return set().union(*self.waiting)


def rows_of(counts: Sequence[int]) -> list[tuple[int, int]]:
    return sorted((batch, rank) for rank, count in enumerate(counts) for batch in range(count))


def pick(items: Sequence[Any], index: Any) -> Any:
    if index is None:
        return list(items)
    try:
        return items[index] if isinstance(index, slice) else [items[index]]
    except IndexError:
        return None


class Oracle:
    """Whether rank 0 must refuse a read."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self.mine, self.sides = sides[0], sides
        self.agreed = max(side.synced_epochs for side in sides)
        self.later = max(self.agreed, self.mine.epochs)
        self.pending = self.mine.pending

    def has(self, epoch: int, scope: str, names: Any) -> bool:
        return any(
            key[:2] == (scope, epoch) and (names is None or key[2] in names) for key in self.pending
        )

    def shifts(self, epoch: int, index: Any) -> bool:
        counts = [side.synced_rows.get(epoch, 0) for side in self.sides]
        later = [max(counts[0], self.mine.rows.get(epoch, 0)), *counts[1:]]
        return bool(pick(rows_of(counts), index) != pick(rows_of(later), index))

    def index(self, index: Any) -> bool:
        padded: tuple[Any, ...] = (*index, None, None, None)
        on_epochs, key, on_rows, row_key = padded[:4]
        chosen = pick(range(self.agreed), on_epochs)
        if chosen != pick(range(self.later), on_epochs):
            return True
        names = [key] if isinstance(key, str) else key
        row_names = [row_key] if isinstance(row_key, str) else row_key
        for epoch in chosen or ():
            if on_rows is not None:
                if self.has(epoch, "batch", row_names) or self.shifts(epoch, on_rows):
                    return True
                continue
            if self.has(epoch, "epoch", names):
                return True
            if (names is None or "batches" in names) and (
                self.has(epoch, "batch", None) or self.shifts(epoch, slice(None))
            ):
                return True
        return False


BOUND = st.one_of(st.none(), st.integers(-3, 3))
POSITION = st.one_of(st.integers(-3, 3), st.builds(slice, BOUND, BOUND), st.just(slice(None)))
KEY = st.sampled_from(["a", "b", "never", ("a",), ("b", "never"), ["a", "b"], ()])
INDEX = st.one_of(
    st.tuples(POSITION),
    st.tuples(POSITION, st.one_of(KEY, st.sampled_from(["batches", ("batches", "a")]))),
    st.tuples(st.one_of(st.none(), POSITION), st.just("batches"), POSITION),
    st.tuples(POSITION, st.just("batches"), POSITION, KEY),
)
WRITE = st.tuples(
    st.sampled_from(["epoch", "batch", "batch", "record", "record_batch", "attribute"]),
    st.sampled_from(NAMES),
)
STEP = st.one_of(
    st.tuples(st.integers(0, 1), WRITE),
    st.tuples(st.just(0), WRITE),
    st.just(("sync", None)),
    st.just(("timeout", None)),
)


def write(h: History, side: Side, how: str, name: str) -> None:
    epoch = side.epochs - 1
    if how == "epoch":
        h.new_epoch()
        side.epochs += 1
        side.note("opened", side.epochs - 1)
    elif how == "batch" and epoch >= 0:
        h.new_batch()
        side.rows[epoch] = side.rows.get(epoch, 0) + 1
        side.note("opened", epoch)
    elif how == "record" and epoch >= 0:
        h.record(name, 1)
        side.note("epoch", epoch, name)
    elif how == "record_batch" and side.rows.get(epoch):
        h.record_batch(name, 1.0)
        side.note("batch", epoch, name)
    elif how == "attribute":
        h.attributes[name] = 1
        side.note("run", None, name)


def refuses(read: Callable[[], Any]) -> bool:
    try:
        read()
    except NotSyncedError:
        return True
    except (KeyError, IndexError):
        pass
    return False


@settings(max_examples=400)
@given(st.lists(STEP, max_size=14), st.lists(INDEX, min_size=1, max_size=5))
def test_a_read_is_refused_exactly_when_a_pending_record_has_what_it_asks_for(
    world: World, sync_all: Sync, steps: list[Any], indices: list[Any]
) -> None:
    histories = world(2, reduce=dict.fromkeys(NAMES, "sum"))
    sides = [Side(), Side()]
    h, mine = histories[0], sides[0]
    sync_all(histories)
    for rank, step in [*steps, ("look", None)]:
        if rank == "sync":
            sync_all(histories)
            for side in sides:
                side.synced()
        elif rank == "timeout":
            with pytest.raises(SyncTimeoutError):
                h.sync(timeout=0)
            mine.freeze()
        elif rank != "look":
            write(histories[rank], sides[rank], *step)
        oracle = Oracle(sides)
        for index in indices:
            assert refuses(lambda: h[index]) == oracle.index(index), index
        for name in NAMES:
            anywhere = any(oracle.has(epoch, "epoch", [name]) for epoch in range(oracle.later))
            assert refuses(lambda: h.best(name)) == anywhere
            assert refuses(lambda: h.epochs_since_best(name)) == anywhere
            assert refuses(lambda: h.attributes[name]) == (("run", None, name) in mine.pending)
            assert refuses(lambda: h.per_rank(-1, name)) == oracle.index((-1, name))
            for epochs in (0, -1, slice(None)):
                asked = oracle.index((epochs, "batches", slice(None), name))
                assert refuses(lambda: h.reduce(name, epoch=epochs)) == asked
        assert refuses(h.to_list) == oracle.index((slice(None),))
        never_refused(h)


def never_refused(h: History) -> None:
    """What answers for the agreed view whatever is pending."""
    len(h), bool(h), list(h), repr(h), h.digest(), h == h, h == History()
    for view in (h.synced, h.local, h.ranks[0], h.ranks[1]):
        assert not refuses(view.to_list)
        assert not refuses(lambda: dict(view.attributes))
        assert not refuses(lambda: view[-1, "a"])
        assert not refuses(lambda: view[-1, "batches", :, "a"])
        len(view), list(view), repr(view)


def test_after_record_and_before_sync_the_value_is_not_read(world: World, sync_all: Sync) -> None:
    histories = world(2)
    h = histories[0]
    h.new_epoch(valid_loss=1.0)
    sync_all(histories)
    assert h[-1, "valid_loss"] == 1.0
    h.record("valid_loss", 1.0)
    with pytest.raises(NotSyncedError):
        h[-1, "valid_loss"]
    assert h.synced[-1, "valid_loss"] == 1.0
    assert histories[1][-1, "valid_loss"] == 1.0
    sync_all(histories)
    assert h[-1, "valid_loss"] == 1.0


def test_the_last_epoch_is_not_read_while_a_newer_one_is_open_here(
    world: World, sync_all: Sync
) -> None:
    histories = world(2)
    h = histories[1]
    h.new_epoch(a=1)
    sync_all(histories)
    h.new_epoch()
    with pytest.raises(NotSyncedError):
        h[-1]
    assert h[0] == {"batches": [], "a": 1}


def test_the_message_names_what_is_pending_and_the_ways_out(world: World) -> None:
    h = world(2)[1]
    h.new_epoch(a=1)
    with pytest.raises(NotSyncedError) as caught:
        h[-1, "a"]
    for part in ("rank 1", "epoch 0", "sync()", "h.synced[...]", "h.local[...]"):
        assert part in str(caught.value)


def test_a_refused_read_is_no_key_error_and_does_not_change_the_history(world: World) -> None:
    h = world(2)[0]
    h.new_epoch(a=1)
    before = h.digest(), h.local.to_list()
    with pytest.raises(RuntimeError):
        h[-1, "a"]
    assert (h.digest(), h.local.to_list()) == before
    assert not issubclass(NotSyncedError, LookupError)


def test_in_a_run_of_one_rank_nothing_is_ever_pending() -> None:
    from synchist import MemoryStore

    for h in (History(), History(store=MemoryStore(), rank=0, world_size=1)):
        h.new_epoch(a=1)
        h.new_batch(b=2.0)
        h.attributes["c"] = 3
        assert (h[-1, "a"], h[-1, "batches", :, "b"], h.attributes["c"]) == (1, [2.0], 3)
        assert h.best("a").value == 1
        assert h.epochs_since_best("a") == 0


def test_a_copy_keeps_refusing_what_was_pending(world: World) -> None:
    h = world(2)[0]
    h.new_epoch(a=1)
    for other in (copy.deepcopy(h), pickle.loads(pickle.dumps(h))):
        with pytest.raises(NotSyncedError):
            other[-1, "a"]
        assert other.local[-1, "a"] == 1
