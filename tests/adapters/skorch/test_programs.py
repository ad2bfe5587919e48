"""Random programs on several ranks, against a model of lists and dicts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from synchist_skorch import SkorchHistory


class Model:
    """What one rank recorded, by epoch number, and which epochs it sees."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.count = 0
        self.open: int | None = None
        self.values: dict[int, dict[str, Any]] = {}
        self.rows: dict[int, list[dict[str, Any]]] = {}
        self.deleted: set[int] = set()
        self.seen: list[int] = []

    def new_epoch(self) -> None:
        self.open, self.count = self.count, self.count + 1
        self.values.setdefault(self.open, {})
        self.rows.setdefault(self.open, [])
        if self.open not in self.seen:
            self.seen = sorted([*self.seen, self.open])


NAMES = st.sampled_from("abc")
VALUES = st.one_of(st.integers(0, 3), st.floats(0, 1), st.tuples(st.integers(0, 3)))
STEPS = st.one_of(
    st.just(("new_epoch",)),
    st.just(("new_batch",)),
    st.tuples(st.just("record"), NAMES, VALUES),
    st.tuples(st.just("record_batch"), NAMES, VALUES),
    st.tuples(st.just("write"), st.integers(0, 5), NAMES, VALUES),
    st.tuples(st.just("erase"), st.integers(0, 5), NAMES),
    st.tuples(st.just("delete"), st.integers(0, 5)),
)
PROGRAMS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 2), STEPS),
        st.tuples(st.integers(0, 2), STEPS),
        st.tuples(st.integers(0, 2), STEPS),
        st.just((None, ("sync",))),
        st.just((None, ("copy",))),
    ),
    max_size=40,
)


def step(history: SkorchHistory, model: Model, what: str, *args: Any) -> None:
    """Do it, where it is possible, on both."""
    here = model.open is not None and model.open not in model.deleted
    if what == "new_epoch":
        if model.count in model.deleted:  # another rank had it, and it is gone for good
            return
        history.new_epoch()
        model.new_epoch()
    elif what == "new_batch" and here:
        history.new_batch()
        model.rows[model.open].append({})  # type: ignore[index]
    elif what == "record_batch" and here and model.rows[model.open]:  # type: ignore[index]
        history.record_batch(*args)
        model.rows[model.open][-1][args[0]] = args[1]  # type: ignore[index]
    elif what == "record" and model.seen:
        history.record(*args)
        number = model.open if here else model.seen[-1]
        model.values.setdefault(number, {})[args[0]] = args[1]  # type: ignore[arg-type]
    elif what in ("write", "erase", "delete") and model.seen:
        index = args[0] % len(model.seen)
        number = model.seen[index]
        if what == "write":
            history[index][args[1]] = args[2]
            model.values.setdefault(number, {})[args[1]] = args[2]
        elif what == "erase" and args[1] in history[index]:
            del history[index][args[1]]
            model.values.get(number, {}).pop(args[1], None)
            assert args[1] not in history[index]
        elif what == "delete":
            del history[index]
            model.deleted.add(number)
            model.seen.remove(number)


def check(histories: Sequence[SkorchHistory], models: Sequence[Model]) -> None:
    """Every rank sees what the models say, after a sync."""
    deleted = set[int]().union(*(model.deleted for model in models))
    numbers = sorted(set[int]().union(*(model.values for model in models)) - deleted)
    for history, model in zip(histories, models, strict=True):
        model.deleted = set(deleted)
        model.seen = list(numbers)
        assert len(history) == len(numbers)
        for index, number in enumerate(numbers):
            all_rows = [m.rows.get(number, []) for m in models]
            longest = max(map(len, all_rows))
            merged = [r[batch] for batch in range(longest) for r in all_rows if batch < len(r)]
            assert history[index, "batches"] == merged
            for batch, row in enumerate(model.rows.get(number, [])):
                assert history[index, "batches", batch] == row
            names = {name for m in models for name in m.values.get(number, {})}
            assert history[index].keys() - {"batches"} == names
            for name in names:
                by_rank = {
                    m.rank: m.values[number][name]
                    for m in models
                    if name in m.values.get(number, {})
                }
                assert history.per_rank(index, name) == by_rank
                lowest = next(iter(by_rank.values()))
                assert history[index, name] == by_rank.get(model.rank, lowest)


@settings(max_examples=60)
@given(program=PROGRAMS, size=st.integers(2, 3))
def test_every_rank_sees_what_was_recorded(
    world: Callable[..., list[SkorchHistory]],
    sync_all: Callable[[Sequence[SkorchHistory]], None],
    program: list[tuple[int | None, tuple[Any, ...]]],
    size: int,
) -> None:
    histories = world(size)
    models = [Model(rank) for rank in range(size)]
    for rank, what in [*program, (None, ("sync",))]:
        if what == ("copy",):
            histories = [copy.deepcopy(histories[0])] + [
                pickle.loads(pickle.dumps(history)) for history in histories[1:]
            ]
        elif rank is None:
            sync_all(histories)
            check(histories, models)
        elif rank < size:
            step(histories[rank], models[rank], *what)
    for history in reversed(histories):  # rank 0 waits for the others
        history.close()
