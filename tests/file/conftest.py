"""Worlds of ranks as threads, and what of a history a file has to bring back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from synchist import History, MemoryStore
from synchist.codec import encode


@pytest.fixture(scope="session", autouse=True)
def patience_with_the_machine() -> Iterator[None]:
    """A machine that stands still for a second must not look like a store that is dead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synchist.exchange.worker._GRACE_SECONDS", 30.0)
        yield


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
    """`at_once(calls)`: what each call gave, each in its thread; the first error is raised."""

    def run(calls: Iterable[Callable[[], Any]]) -> list[Any]:
        calls = list(calls)
        with ThreadPoolExecutor(len(calls)) as pool:
            return [future.result() for future in [pool.submit(call) for call in calls]]

    return run


@pytest.fixture(scope="session")
def sync_all(at_once: Callable[..., list[Any]]) -> Callable[[Sequence[History]], None]:
    """`sync_all(histories)`: one sync of all of them."""

    def sync(histories: Sequence[History]) -> None:
        at_once([h.sync for h in histories])

    return sync


@pytest.fixture(scope="session")
def shown() -> Callable[[History], bytes]:
    """`shown(h)`: everything that can be read of a history, to the bit."""

    def show(h: History) -> bytes:
        return encode(
            [
                h.digest(),
                (h.rank, h.world_size, h.name),
                h.synced.to_list(),
                h.local.to_list(),
                dict(h.local.attributes),
                [view.to_list() for view in h.ranks.values()],
            ]
        )

    return show
