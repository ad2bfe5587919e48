"""Histories of several ranks in one process: each rank writes in turn, all talk at once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from synchist import MemoryStore
from synchist_skorch import SkorchHistory

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session", autouse=True)
def patience_with_the_machine() -> Iterator[None]:
    """A machine that stands still for a second must not look like a store that is dead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synchist.exchange.worker._GRACE_SECONDS", 30.0)
        yield


@pytest.fixture(scope="session")
def world() -> Callable[..., list[SkorchHistory]]:
    """`world(n, **options)`: the histories of n ranks on one store."""

    def make(size: int, **options: Any) -> list[SkorchHistory]:
        store = MemoryStore()
        options = {"timeout": 30.0, **options}
        return [SkorchHistory(store=store, rank=r, world_size=size, **options) for r in range(size)]

    return make


@pytest.fixture(scope="session")
def at_once() -> Callable[..., list[Any]]:
    """`at_once(calls)`: what each call gave, or the exception it raised; each in its thread."""

    def run(calls: Iterable[Callable[[], Any]]) -> list[Any]:
        def outcome(call: Callable[[], Any]) -> Any:
            try:
                return call()
            except Exception as error:  # noqa: BLE001  (the test looks at it)
                return error

        calls = list(calls)
        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(outcome, calls))

    return run


@pytest.fixture(scope="session")
def sync_all(at_once: Callable[..., list[Any]]) -> Callable[[Sequence[SkorchHistory]], None]:
    """`sync_all(histories)`: one sync of all of them; the first error is raised.

    Afterwards all ranks hold the same, as their digests say.
    """

    def sync(histories: Sequence[SkorchHistory]) -> None:
        for rank, outcome in enumerate(at_once([h.sync for h in histories])):
            if outcome is not None:
                outcome.add_note(f"on rank {rank}")
                raise outcome
        assert len({h.digest() for h in histories}) == 1

    return sync


@pytest.fixture(scope="module")
def programs() -> Iterator[Callable[[str], ModuleType]]:
    """`programs(name)`: a module of functions to launch; started processes find it as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROGRAMS))
        yield importlib.import_module
