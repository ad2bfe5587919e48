"""Shared set-up: threads of torch, Hypothesis profiles, who runs where, marks, ranks as threads."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from synchist import History, MemoryStore
from synchist.exchange.worker import _GRACE_SECONDS

# Several ranks share the cores, here and in every child process: one thread each. Set before torch
# loads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No deadline per example: a slow machine is no bug. `ci` draws the same examples every time, so a
# red build can be had again; `dev` looks for new ones; `nightly` looks for long.
settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci", parent=settings.get_profile("dev"), derandomize=True, print_blob=True
)
settings.register_profile(
    "nightly",
    parent=settings.get_profile("dev"),
    max_examples=5000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """The search for examples in docstrings imports every file; here, only the tests."""
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if helper else None


# Tests that start processes stay on one worker of pytest-xdist: two of them at once would compete
# for the cores, and their deadlines would tell of that and not of the code.
PROCESSES = re.compile(r"tests/(adapters|faults)/|_processes\.py$")


@pytest.hookimpl(optionalhook=True)  # pytest-xdist defines it, and may be absent
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "load":  # what -n alone means; any other choice is respected
        return None

    from xdist.scheduler import LoadFileScheduling

    scheduler = LoadFileScheduling(config, log)
    by_file = scheduler._split_scope
    scheduler._split_scope = lambda test: (
        "processes" if PROCESSES.search(by_file(test)) else by_file(test)
    )
    return scheduler


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") and not _has_cuda():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and there is none here"))


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


# Histories of several ranks in one process: each rank writes in turn, all sync at once.


@pytest.fixture(scope="session", autouse=True)
def patience_with_the_machine() -> Iterator[None]:
    """A machine that stands still for a second must not look like a store that is dead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synchist.exchange.worker._GRACE_SECONDS", 30.0)
        yield


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users have it: for tests in virtual time, or of what happens when patience ends."""
    monkeypatch.setattr("synchist.exchange.worker._GRACE_SECONDS", _GRACE_SECONDS)


@pytest.fixture(scope="session")
def world() -> Callable[..., list[History]]:
    """`world(n, **options)`: the histories of n ranks on one store."""

    def make(size: int, **options: Any) -> list[History]:
        store = MemoryStore()
        options = {"timeout": 30.0, **options}
        return [History(store=store, rank=r, world_size=size, **options) for r in range(size)]

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
def sync_all(at_once: Callable[..., list[Any]]) -> Callable[[Sequence[History]], None]:
    """`sync_all(histories)`: one sync of all of them; the first error is raised."""

    def sync(histories: Sequence[History]) -> None:
        for rank, outcome in enumerate(at_once([h.sync for h in histories])):
            if outcome is not None:
                outcome.add_note(f"on rank {rank}")
                raise outcome

    return sync
