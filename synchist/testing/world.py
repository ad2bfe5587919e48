"""A simulated world: all ranks of a run in one process, one step at a time, in virtual time."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from ..errors import SynchistWarning
from ..stores import MemoryStore
from .faulty_store import Faults, FaultyStore
from .scheduler import Scheduler

__all__ = ["Killed", "World"]

_STEPS_SECONDS: Final = (0.00002, 0.0001, 0.0003)
_POLL_SECONDS: Final = 0.005


class Killed(BaseException):
    """What a rank that is killed raises at its next store call: it says no goodbye."""


class World:
    """Runs ranks as threads in virtual time; the same seed gives the same run, step by step.

    Only one rank runs at a time. It hands over at store calls, whose durations are drawn from the
    seed, so a seed is an interleaving; a deadline of an hour costs nothing. Use it to see what a
    program does when ranks are late, when they fail, and when the store does.

    Args:
        world_size: number of ranks.
        store: what the ranks share: a store with `check` whose calls return at once.
            A `MemoryStore` when None. It outlives `run`, as a server outlives its clients.
        seed: where everything random comes from.
        faults: what goes wrong between each rank and the store.
        most_steps: after so many steps a run counts as one that never ends.

    Attributes:
        trace: (virtual time, rank, operation, key) of every store call, in order.

    Example:
        >>> from synchist import History
        >>> def train(rank, store):
        ...     with History(store=store, rank=rank, world_size=2, timeout=60) as h:
        ...         h.new_epoch(loss=1.0)
        ...         h.sync()
        ...         return h.digest()
        >>> digests = World(2, seed=7).run(train)
        >>> digests[0] == digests[1]
        True
    """

    def __init__(
        self,
        world_size: int,
        store: Any = None,
        seed: int = 0,
        *,
        faults: Faults | None = None,
        most_steps: int = 1_000_000,
    ) -> None:
        self.world_size = world_size
        self.store = MemoryStore() if store is None else store
        self.seed = seed
        self.faults = faults
        self.trace: list[tuple[float, int, str, str]] = []
        self._scheduler = Scheduler(most_steps)
        self._runs = 0
        self._handles = 0
        self._past: dict[str, list[bytes]] = {}

    @property
    def now(self) -> float:
        """Virtual time in seconds."""
        return self._scheduler.now

    def run(
        self, body: Callable[[int, Any], Any], *, kill: tuple[int, int] | None = None
    ) -> list[Any]:
        """Start all ranks and wait for their ends; may be called again, as after a restart.

        Args:
            body: called as `body(rank, store)`; `store` is that rank's own handle.
            kill: (rank, n): that rank raises `Killed` at its n-th store call and later ones.

        Returns:
            By rank, what `body` returned, or the exception that it raised.

        Raises:
            StuckError: the ranks did not end.
        """
        self._runs += 1

        def rank_body(rank: int) -> Callable[[], Any]:
            dies_at = kill[1] if kill is not None and kill[0] == rank else None
            handle = self.open_store(rank, dies_at=dies_at)
            return lambda: body(rank, handle)

        with warnings.catch_warnings():  # of records that a closed history had not synced
            warnings.simplefilter("ignore", SynchistWarning)
            return self._scheduler.run([rank_body(rank) for rank in range(self.world_size)])

    def open_store(self, rank: int, *, dies_at: int | None = None) -> Any:
        """Another handle for a rank, as when its process alone is started again.

        Args:
            rank: the rank.
            dies_at: at its n-th call and later ones, the handle raises `Killed`.
        """
        self._handles += 1
        rng = random.Random(f"{self.seed} {self._runs} {self._handles} {rank}")
        handle = _Handle(self, rank, rng, dies_at)
        if self.faults is None:
            return handle
        seed = rng.randrange(2**32)
        return FaultyStore(handle, seed=seed, faults=self.faults, past=self._past)

    def sleep(self, seconds: float) -> None:
        """For a rank: let so much virtual time pass."""
        self._scheduler.sleep(seconds)


class _Handle:
    """One rank's handle on the shared store; every call takes time and may be the last."""

    def __init__(self, world: World, rank: int, rng: random.Random, dies_at: int | None) -> None:
        self._world = world
        self._rank = rank
        self._rng = rng
        self._dies_at = dies_at
        self._calls = 0
        self._pace = rng.choice(_STEPS_SECONDS)

    def set(self, key: str, value: bytes, /) -> None:
        self._step("set", key)
        self._world.store.set(key, value)

    def get(self, key: str, /) -> bytes:
        self._step("get", key)
        self._await([key], self._world.now + 300)
        value: bytes = self._world.store.get(key)
        return value

    def multi_get(self, keys: Sequence[str], /) -> list[bytes]:
        return [self.get(key) for key in keys]

    def check(self, keys: Sequence[str], /) -> bool:
        self._step("check", keys[0] if keys else "")
        return bool(self._world.store.check(keys))

    @property
    def compare_set(self) -> Any:
        """Where the store has it."""
        compare_set = getattr(self._world.store, "compare_set", None)
        if compare_set is None:
            return None

        def stepping(key: str, expected: str, desired: str, /) -> bytes:
            self._step("compare_set", key)
            found: bytes = compare_set(key, expected, desired)
            return found

        return stepping

    def wait(self, keys: Sequence[str], timeout: timedelta, /) -> None:
        self._step("wait", keys[0] if keys else "")
        self._await(keys, self._world.now + timeout.total_seconds())

    def delete_key(self, key: str, /) -> bool:
        self._step("delete", key)
        return bool(self._world.store.delete_key(key))

    def _await(self, keys: Sequence[str], end: float) -> None:
        while not self._world.store.check(keys):
            if self._world.now >= end:
                raise TimeoutError(f"timed out waiting for {keys}")
            self._world.sleep(min(_POLL_SECONDS, end - self._world.now))

    def _step(self, operation: str, key: str) -> None:
        world = self._world
        self._calls += 1
        # Mostly quick, at times slow, now and then long enough for a short deadline to pass.
        chance = self._rng.random()
        seconds = self._pace * (0.2 + self._rng.random())
        if chance < 0.02:
            seconds += self._rng.random() * 0.06
        elif chance < 0.15:
            seconds += self._rng.random() * 0.004
        world.sleep(seconds)
        if self._dies_at is not None and self._calls >= self._dies_at:
            raise Killed
        world.trace.append((world.now, self._rank, operation, key))
