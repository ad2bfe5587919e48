"""Random programs, one per rank, ragged and skewed: what every one of them must give."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synchist import History
from synchist.codec import encode

Run = Callable[[int, Callable[[int], Any]], list[Any]]

NAMES = st.sampled_from(["loss", "n", "a"])
VALUES = st.one_of(
    st.floats(),
    st.integers(-5, 5),
    st.sampled_from([None, True, 2**70, "text", b"bytes", (1, "t")]),
    st.tuples(st.just("list"), st.lists(st.integers(), max_size=3)),
    st.tuples(st.just("dict"), st.lists(st.integers(), max_size=3)),
    st.tuples(st.just("array"), st.lists(st.floats(width=32), min_size=1, max_size=3)),
    st.tuples(st.just("tensor"), st.lists(st.integers(0, 99), min_size=1, max_size=3)),
    st.tuples(st.just("scalar"), st.integers(0, 99)),
)
STEP = st.tuples(
    st.sampled_from(
        ["new_epoch", "new_batch", "new_batch", "record", "record_batch", "record_batch"]
    ),
    st.dictionaries(NAMES, VALUES, max_size=2),
)
ATTRIBUTE = st.tuples(st.just("attribute"), st.dictionaries(NAMES, VALUES, max_size=1))
PROGRAM = st.lists(st.one_of(STEP, STEP, STEP, ATTRIBUTE), max_size=14).map(
    lambda steps: [("new_epoch", {}), *steps] if len(steps) % 5 else steps
)

RUNS = settings().max_examples
"""100, unless the profile asks for more."""

RULES = dict.fromkeys(["loss", "n", "a"], "first")


def make(description: Any) -> Any:
    """A fresh value; mutable ones are described by a tag and contents."""
    if not isinstance(description, tuple) or description[0] == 1:
        return description
    tag, contents = description
    if tag == "list":
        return [*contents, [0]]
    if tag == "dict":
        return {"items": list(contents)}
    if tag == "array":
        return np.array(contents, dtype=np.float32)
    return torch.tensor(contents)


def spoil(value: Any) -> None:
    """Change a value in place, as training loops do."""
    if isinstance(value, list):
        value[-1] = "spoilt"
    elif isinstance(value, dict):
        value["items"].append("spoilt")
    elif isinstance(value, (np.ndarray, torch.Tensor)):
        value += 1


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[list[Any]], list[list[list[int]]]]:
    """Programs of 1 to 4 ranks, and two ways to cut each into stretches between syncs.

    In either way all ranks sync equally often, wherever in its program a rank does it.
    """
    programs = draw(st.lists(PROGRAM, min_size=1, max_size=4))
    ways = []
    for _ in range(2):
        count = draw(st.integers(0, 4))
        cut = st.lists(st.integers(0, 15), min_size=count, max_size=count).map(sorted)
        ways.append([draw(cut) for _ in programs])
    return programs, ways


class Ended:
    """What one rank holds at the end, and the digests it saw."""

    def __init__(self, rank: Any, digests: list[str]) -> None:
        self.history: History = rank.history
        self.model = rank.model
        self.digests = digests


def run(
    run_ranks: Run,
    world: Any,
    model_of: Any,
    programs: list[list[Any]],
    cuts: list[list[int]],
    between: Callable[[History], None] = lambda history: None,
    mutate: bool = True,
) -> list[Ended]:
    histories = world(len(programs), reduce=RULES)

    def body(number: int) -> Ended:
        rank = model_of(histories[number])
        digests: list[str] = []

        def sync() -> None:
            rank.history.sync()
            digests.append(rank.history.digest())

        program, due = programs[number], list(cuts[number])
        for position, step in enumerate(program):
            while due and due[0] <= position:
                due.pop(0)
                sync()
            for value in rank.do(*step, make):
                if mutate:
                    spoil(value)
            between(rank.history)
        for _ in range(len(due) + 1):
            sync()
        return Ended(rank, digests)

    ended: list[Ended] = run_ranks(len(programs), body)
    return ended


@settings(max_examples=4 * RUNS)
@given(worlds())
def test_every_sync_leaves_all_ranks_with_one_history_of_what_they_recorded(
    run_ranks: Run, world: Any, model_of: Any, merge_models: Any, case: Any
) -> None:
    """And changing a value after it was recorded changes nothing: all of them are spoilt."""
    programs, (cuts, _) = case
    ranks = run(run_ranks, world, model_of, programs, cuts)
    assert all(rank.digests == ranks[0].digests for rank in ranks)
    models = [rank.model for rank in ranks]
    agreed = encode(merge_models(models))
    for rank in ranks:
        h = rank.history
        assert encode(h.to_list()) == agreed
        assert encode(h.synced.to_list()) == agreed
        assert encode(h.local.to_list()) == encode(rank.model.to_list())
        assert encode(dict(h.local.attributes)) == encode(rank.model.attributes)
        for number, model in enumerate(models):
            assert encode(h.ranks[number].to_list()) == encode(model.to_list())
            assert encode(dict(h.ranks[number].attributes)) == encode(model.attributes)


@settings(max_examples=3 * RUNS)
@given(worlds())
def test_the_final_history_does_not_depend_on_where_the_syncs_were(
    run_ranks: Run, world: Any, model_of: Any, case: Any
) -> None:
    programs, ways = case
    one, other = (run(run_ranks, world, model_of, programs, cuts) for cuts in ways)
    assert one[0].digests[-1] == other[0].digests[-1]
    for left, right in zip(one, other, strict=True):
        assert left.history == right.history
        assert encode(left.history.to_list()) == encode(right.history.to_list())
        assert encode(dict(left.history.attributes)) == encode(dict(right.history.attributes))


def look(history: History) -> None:
    """Read in every way there is."""
    history.local.to_list(), history.synced.to_list(), history.digest(), repr(history)
    len(history), list(history)
    dict(history.local.attributes), [view.to_list() for view in history.ranks.values()]
    copy.deepcopy(history)
    for read in (
        history.to_list,
        lambda: history[-1],
        lambda: history[:, "loss"],
        lambda: history[-1, "batches", :, ("loss", "n")],
        lambda: history.reduce("loss", list),
        lambda: history.best("n"),
        lambda: history.attributes["a"],
    ):
        try:
            read()
        except (LookupError, ValueError, RuntimeError):
            pass


@settings(max_examples=2 * RUNS)
@given(worlds())
def test_reading_between_writes_changes_nothing(
    run_ranks: Run, world: Any, model_of: Any, case: Any
) -> None:
    programs, (cuts, _) = case
    read = run(run_ranks, world, model_of, programs, cuts, between=look)
    unread = run(run_ranks, world, model_of, programs, cuts)
    assert [rank.digests for rank in read] == [rank.digests for rank in unread]
    for left, right in zip(read, unread, strict=True):
        assert encode(left.history.to_list()) == encode(right.history.to_list())


@settings(max_examples=2 * RUNS)
@given(worlds())
def test_changing_a_value_after_recording_it_changes_nothing(
    run_ranks: Run, world: Any, model_of: Any, case: Any
) -> None:
    programs, (cuts, _) = case
    spoilt = run(run_ranks, world, model_of, programs, cuts)
    intact = run(run_ranks, world, model_of, programs, cuts, mutate=False)
    assert [rank.digests for rank in spoilt] == [rank.digests for rank in intact]
