"""The four indices, against `skorch.history.History` itself on random histories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skorch.history import History as SkorchHistory

from synchist import History

NAMES = ["a", "b", "c"]
VALUES = st.one_of(st.integers(-9, 9), st.sampled_from([0.5, None, True, "text", [1, 2], ()]))
ROWS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3)
EPOCHS = st.lists(st.tuples(ROWS, st.lists(ROWS, max_size=4)), max_size=4)

BOUNDS = st.one_of(st.none(), st.integers(-5, 5))
SLICES = st.builds(slice, BOUNDS, BOUNDS, st.sampled_from([None, 1, 2, -1, -2]))
POSITIONS = st.one_of(st.integers(-5, 5), SLICES, st.just(slice(None)))
ONE_KEY = st.sampled_from([*NAMES, "never", "batches"])
KEYS = st.one_of(ONE_KEY, st.lists(ONE_KEY, max_size=3), st.lists(ONE_KEY, max_size=3).map(tuple))
INDICES = st.one_of(
    POSITIONS,
    st.tuples(POSITIONS),
    st.tuples(POSITIONS, KEYS),
    st.tuples(POSITIONS, st.just("batches"), POSITIONS),
    st.tuples(POSITIONS, st.just("batches"), POSITIONS, KEYS),
    st.tuples(st.one_of(st.none(), POSITIONS), KEYS, POSITIONS, KEYS),
    st.tuples(st.one_of(st.none(), POSITIONS), KEYS, st.none(), KEYS),
    st.tuples(POSITIONS, KEYS, POSITIONS, KEYS, KEYS),
    st.just("a"),
    st.just(()),
)


def outcome(history: Any, index: Any) -> tuple[str, Any]:
    try:
        return "found", history[index]
    except Exception as error:  # noqa: BLE001  (whatever it is, both must raise it)
        return "raised", type(error)


def typed(value: Any) -> Any:
    """A value in which True and 1, or a list and a tuple, are different."""
    if isinstance(value, dict):
        return {name: typed(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [typed(item) for item in value]
    return type(value), value


def record(history: Any, epochs: Any) -> None:
    for values, rows in epochs:
        history.new_epoch()
        for name, value in values.items():
            history.record(name, value)
        for row in rows:
            history.new_batch()
            for name, value in row.items():
                history.record_batch(name, value)


@settings(max_examples=600)
@given(EPOCHS, st.lists(INDICES, min_size=1, max_size=8))
def test_every_index_gives_what_it_gives_in_skorch(epochs: Any, indices: list[Any]) -> None:
    ours, theirs = History(), SkorchHistory()
    record(ours, epochs)
    record(theirs, epochs)
    assert typed(ours.to_list()) == typed(theirs.to_list())
    assert typed(list(ours)) == typed(list(theirs))
    assert len(ours) == len(theirs)
    for index in indices:
        assert typed(outcome(ours, index)) == typed(outcome(theirs, index)), index
        assert typed(outcome(ours.local, index)) == typed(outcome(theirs, index)), index
        assert typed(outcome(ours.synced, index)) == typed(outcome(theirs, index)), index
        assert typed(outcome(ours.ranks[0], index)) == typed(outcome(theirs, index)), index


@settings(max_examples=150)
@given(st.lists(EPOCHS, min_size=2, max_size=3), st.lists(INDICES, min_size=1, max_size=6))
def test_agreed_rows_come_in_the_order_batch_then_rank(
    world: Callable[..., list[History]],
    sync_all: Callable[[Sequence[History]], None],
    programs: list[Any],
    indices: list[Any],
) -> None:
    histories = world(len(programs), reduce=dict.fromkeys(NAMES, "first"))
    for history, epochs in zip(histories, programs, strict=True):
        record(history, epochs)
    sync_all(histories)
    merged = SkorchHistory()
    for epoch in range(max(map(len, programs))):
        parts = [program[epoch] for program in programs if epoch < len(program)]
        merged.new_epoch()
        for values, _ in parts:
            for name, value in values.items():
                if name not in merged[-1]:
                    merged.record(name, value)
        for batch in range(max(len(rows) for _, rows in parts)):
            merged[-1]["batches"].extend(
                dict(rows[batch]) for _, rows in parts if batch < len(rows)
            )
    for index in [slice(None), *indices]:
        expected = typed(outcome(merged, index))
        for history in histories:
            assert typed(outcome(history, index)) == expected, index
    for rank, epochs in enumerate(programs):
        own = SkorchHistory()
        record(own, epochs)
        for index in indices:
            expected = typed(outcome(own, index))
            for history in histories:
                assert typed(outcome(history.ranks[rank], index)) == expected, (rank, index)
            assert typed(outcome(histories[rank].local, index)) == expected, (rank, index)


@pytest.mark.parametrize("key", [7, 0.5, b"a", ("a", 7), slice(None)])
def test_a_key_of_a_type_that_means_nothing_is_a_type_error(key: Any) -> None:
    h = History()
    for _ in range(2):
        with pytest.raises(TypeError):
            h[:, key]
        with pytest.raises(TypeError):
            h[:, "batches", :, key]
        h.new_epoch(a=1)
        h.new_batch(a=1)


def test_more_than_four_indices_are_a_key_error_that_says_which_four_there_are() -> None:
    h = History()
    h.new_epoch()
    with pytest.raises(KeyError, match="4 indices"):
        h[0, "batches", 0, "a", 0]


def test_a_third_index_without_batches_is_a_key_error_that_says_so() -> None:
    h = History()
    h.new_epoch(a=1)
    with pytest.raises(KeyError, match="'batches'"):
        h[0, "a", 0]


def test_a_key_error_names_the_key_and_where_it_was_looked_for() -> None:
    h = History()
    for _ in range(3):
        h.new_epoch(a=1)
    with pytest.raises(KeyError, match=r"'never'.*epoch 2"):
        h[-1, "never"]
    with pytest.raises(KeyError, match=r"'never'.*epochs 0 to 2"):
        h[:, "never"]


def test_an_index_error_names_the_epoch_or_batch_and_how_many_there_are() -> None:
    h = History()
    h.new_epoch()
    h.new_batch(a=1)
    with pytest.raises(IndexError, match="epoch 5 of 1"):
        h[5]
    with pytest.raises(IndexError, match="batch 7 of 1 in epoch 0"):
        h[0, "batches", 7]


def test_what_a_read_returns_can_be_changed_without_changing_the_history() -> None:
    h = History()
    h.new_epoch(tags=["a"])
    h.new_batch(sizes={"x": [1]})
    before = h.digest()
    h[0, "tags"].append("b")
    h[0]["more"] = 1
    h[0, "batches", 0]["more"] = 1
    h[0, "batches", 0, "sizes"]["x"].append(2)
    h.to_list().clear()
    assert h.digest() == before
    assert h.to_list() == [{"batches": [{"sizes": {"x": [1]}}], "tags": ["a"]}]
