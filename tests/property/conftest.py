"""Ranks as threads, random programs for them, and a plain model of what they recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from synchist import History, MemoryStore, UsageError

PATIENCE = 30.0
"""Seconds that a rank waits for the others; no run comes near it unless it is stuck."""


@pytest.fixture(scope="session")
def run_ranks() -> Callable[[int, Callable[[int], Any]], list[Any]]:
    """`run_ranks(n, body)`: `body(rank)` in a thread for each rank; their results in rank order.

    The first exception, in time, is raised, with a note that says which rank raised it. Nothing
    holds the ranks together: each runs as fast as it can.
    """

    def run(size: int, body: Callable[[int], Any]) -> list[Any]:
        results: list[Any] = [None] * size
        errors: list[BaseException] = []

        def rank_main(rank: int) -> None:
            try:
                results[rank] = body(rank)
            except BaseException as error:  # noqa: BLE001  (raised again below)
                error.add_note(f"on rank {rank}")
                errors.append(error)

        threads = [
            threading.Thread(target=rank_main, args=(rank,), daemon=True) for rank in range(size)
        ]
        for thread in threads:
            thread.start()
        for rank, thread in enumerate(threads):
            thread.join(4 * PATIENCE)
            if thread.is_alive() and not errors:
                raise AssertionError(f"rank {rank} hangs")
        if errors:
            raise errors[0]
        return results

    return run


class Model:
    """What one rank recorded: lists and dicts, and nothing clever."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, Any]] = []
        self.rows: list[list[dict[str, Any]]] = []
        self.attributes: dict[str, Any] = {}

    def possible(self, how: str) -> bool:
        """Whether that call is in order now."""
        if how in ("new_epoch", "attribute"):
            return True
        return bool(self.epochs) and (how != "record_batch" or bool(self.rows[-1]))

    def write(self, how: str, values: dict[str, Any]) -> None:
        if how == "new_epoch":
            self.epochs.append(dict(values))
            self.rows.append([])
        elif how == "new_batch":
            self.rows[-1].append(dict(values))
        elif how == "record":
            self.epochs[-1].update(values)
        elif how == "record_batch":
            self.rows[-1][-1].update(values)
        else:
            self.attributes.update(values)

    def to_list(self) -> list[dict[str, Any]]:
        return merged([self])


def merged(models: list[Model]) -> list[dict[str, Any]]:
    """What all ranks agree on: rows by batch and rank, the lowest rank's epoch values.

    Names come in the order rank, first record.
    """
    found = []
    for epoch in range(max(len(model.epochs) for model in models)):
        there = [model for model in models if epoch < len(model.epochs)]
        rows = []
        for batch in range(max(len(model.rows[epoch]) for model in there)):
            for model in there:
                if batch < len(model.rows[epoch]):
                    row = model.rows[epoch][batch]
                    order = dict.fromkeys(name for r in model.rows[epoch] for name in r)
                    rows.append({name: row[name] for name in order if name in row})
        values: dict[str, Any] = {}
        for model in there:
            for name, value in model.epochs[epoch].items():
                values.setdefault(name, value)
        found.append({"batches": rows, **values})
    return found


class Rank:
    """A history, and the model beside it."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.model = Model()

    def do(self, how: str, values: dict[str, Any], make: Callable[[Any], Any]) -> list[Any]:
        """One call; `make` turns a description into a value. Returns the values recorded.

        Calls out of order must be refused, and count for nothing.
        """
        given = {name: make(value) for name, value in values.items()}
        if not self.model.possible(how):
            with pytest.raises(UsageError):
                self._call(how, given)
            return []
        self._call(how, given)
        self.model.write(how, {name: plain(make(value)) for name, value in values.items()})
        return list(given.values())

    def _call(self, how: str, values: dict[str, Any]) -> None:
        if how == "attribute":
            self.history.attributes.update(values)
        elif how == "record_batch" or (how == "record" and len(values) == 1):
            for name, value in values.items():  # one by one, the way loops do it
                getattr(self.history, how)(name, value)
            if not values:
                getattr(self.history, how)({})
        else:
            getattr(self.history, how)(values)


def plain(value: Any) -> Any:
    """A 0-d tensor as the history gives it back."""
    if type(value).__module__ == "torch" and value.dim() == 0:
        return value.item()
    return value


@pytest.fixture(scope="session")
def model_of() -> type[Rank]:
    return Rank


@pytest.fixture(scope="session")
def merge_models() -> Callable[[list[Model]], list[dict[str, Any]]]:
    return merged


@pytest.fixture(scope="session")
def world() -> Callable[..., list[History]]:
    """`world(n)`: the histories of n ranks on one store."""

    def make(size: int, **options: Any) -> list[History]:
        store = MemoryStore()
        options = {"timeout": PATIENCE, **options}
        return [History(store=store, rank=r, world_size=size, **options) for r in range(size)]

    return make
