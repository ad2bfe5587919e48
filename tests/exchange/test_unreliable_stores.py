"""Stores that are slow but alive, and stores that lose what they had not confirmed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from synchist import History, StoreError, SyncTimeoutError
from synchist.testing import World

pytestmark = pytest.mark.usefixtures("no_patience")


class Wrapped:
    """A rank's handle that does something before each call, or after it where that is `late`."""

    def __init__(self, store: Any, before: Callable[[str], bool], *, late: bool = False) -> None:
        self._store = store
        self._before = before
        self._late = late

    def __getattr__(self, name: str) -> Any:
        if name not in ("set", "get", "check", "wait", "delete_key", "multi_get"):
            raise AttributeError(name)

        def call(*args: Any) -> Any:
            if self._late:
                found = getattr(self._store, name)(*args)
                self._before(name)
                return found
            # What is lost was never confirmed: the caller cannot know.
            return getattr(self._store, name)(*args) if self._before(name) else None

        return call


def slow(world: World, seconds: float) -> Callable[[str], bool]:
    def before(_: str) -> bool:
        world.sleep(seconds)
        return True

    return before


@pytest.mark.parametrize("seconds", [0.1, 0.2, 0.4])
def test_calls_of_a_slow_store_that_add_up_do_not_end_the_history(seconds: float) -> None:
    """One deadline covers the whole call, and a store is dead only if one call never ends."""
    world = World(2)
    late = []

    def body(rank: int, store: Any) -> str:
        h = History(store=Wrapped(store, slow(world, seconds)), rank=rank, world_size=2)
        h.new_epoch(rank=rank)
        for timeout in (0.0, 0.004, 0.03, 60):
            began = world.now
            try:
                h.sync(timeout=timeout)
                break
            except SyncTimeoutError as error:
                late.append(error)
            assert world.now - began <= timeout + 1
        return h.digest()

    one, other = world.run(body)
    assert one == other
    assert late


def test_an_error_says_that_it_was_the_store_that_was_slow() -> None:
    world = World(2)

    def body(rank: int, store: Any) -> str:
        h = History(store=Wrapped(store, slow(world, 0.45)), rank=rank, world_size=2)
        with pytest.raises(SyncTimeoutError) as caught:
            h.sync(timeout=0.1)
        assert caught.value.missing == [1 - rank]
        return str(caught.value)

    assert world.run(body)[0] == (
        "the store answers too slowly for a timeout of 0.1 s (meeting; rank 1 had not come). The "
        "call can be repeated, with more time"
    )


def test_a_store_of_which_one_call_never_ends_is_dead_for_good() -> None:
    world = World(2)

    def body(rank: int, store: Any) -> list[str]:
        h = History(store=Wrapped(store, slow(world, 1e6)), rank=rank, world_size=2)
        told = []
        for _ in range(2):
            began = world.now
            with pytest.raises(StoreError) as caught:
                h.sync(timeout=2)
            told.append(f"{world.now - began:.1f} {caught.value}")
        return told

    for first, second in world.run(body):
        assert first.startswith("2.6 the store did not answer within 2 s (meeting)")
        assert second.startswith("0.0 the store did not answer within 2 s (meeting)")


def four_rounds(world: World, rank: int, store: Any, pause: float = 0.0) -> list[str]:
    h = History(store=store, rank=rank, world_size=2)
    digests = []
    for epoch in range(4):
        h.new_epoch(rank=rank, epoch=epoch)
        for left in reversed(range(6)):
            try:
                h.sync(timeout=3)
                break
            except (SyncTimeoutError, StoreError):
                if left == 0:
                    raise
                world.sleep(pause)
        digests.append(h.digest())
    return digests


class Losing(Wrapped):
    """Loses its n-th `set`, as when the connection breaks: the next call fails."""

    def __init__(self, store: Any, number: int) -> None:
        super().__init__(store, self._arrives)
        self._left = number
        self.lost: bool | None = None

    def _arrives(self, name: str) -> bool:
        if self.lost:
            self.lost = False
            raise ConnectionResetError("Connection reset by peer")
        if name != "set" or self.lost is not None:
            return True
        self._left -= 1
        self.lost = True if self._left < 0 else None
        return not self.lost


@pytest.mark.parametrize("loser", [0, 1])
@pytest.mark.parametrize("number", range(9))
def test_a_set_that_was_lost_is_repeated_by_the_next_try(loser: int, number: int) -> None:
    """Every `set` of a meeting and four rounds in turn."""
    world = World(2, seed=number)

    def body(rank: int, store: Any) -> tuple[bool | None, list[str]]:
        handle = Losing(store, number if rank == loser else 1000)
        digests = four_rounds(world, rank, handle)
        return handle.lost, digests

    results = world.run(body)
    assert [type(result) for result in results] == [tuple, tuple], results
    assert results[0][1] == results[1][1]
    assert results[loser][0] is False or number >= 5


@pytest.mark.parametrize("loser", [0, 1])
@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("pause", [0.0, 0.5])
def test_a_call_that_failed_once_is_repeated_whether_the_store_did_it_or_not(
    loser: int, done: bool, pause: float
) -> None:
    """Every store call of a meeting and four rounds in turn."""
    for number in range(70):
        world = World(2, seed=number)

        def body(rank: int, store: Any, number: int = number, world: World = world) -> list[str]:
            calls = iter(range(10_000))

            def before(_: str) -> bool:
                if rank == loser and next(calls) == number:
                    raise ConnectionResetError("Connection reset by peer")
                return True

            return four_rounds(world, rank, Wrapped(store, before, late=done), pause)

        one, other = world.run(body)
        assert isinstance(one, list), (number, one)
        assert one == other, (number, other)
