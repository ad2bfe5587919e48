"""One whole run in a simulated world, drawn from a seed, with an oracle that watches it."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, Final

from ..errors import RankFailedError, StoreError, SynchistError, SyncTimeoutError
from ..history import History
from ..stores import MemoryStore
from .faulty_store import Faults
from .scheduler import StuckError
from .world import Killed, World

__all__ = ["run_trial"]

KINDS: Final = ("calm", "kill", "abort", "close", "refuse", "network", "lost", "restart")
_TRIES: Final = 12
_SHORT: Final = (0.0, 0.004, 0.03, 0.2, 1.0)
_LONG: Final = 5.0
_GRACE: Final = 1.0


def run_trial(seed: int) -> list[str]:
    """Run one world drawn from `seed`, and say what went wrong in it.

    Two to four ranks record, `sync` and `agree`, with short timeouts and retries, records made
    between two tries, and, depending on the seed: one rank killed at a random store call, one that
    is killed and starts again alone, one that aborts or closes, one that belongs to another job, a
    network that delays, drops, duplicates and serves stale values, connections that break for a
    while and take what was not confirmed along. Then all ranks start again over what is left in
    the store: from their checkpoints, or with a new history. The same seed always gives the same
    run.

    Returns:
        Sentences, none when all held: each call ended by its deadline + 1 s in a correct result or
        an error of synchist; no two ranks returned from the same sync with different digests; what
        a rank returned from `sync` never changed; nothing that any rank returned from was lost; and
        where calls can be repeated (nothing went wrong, or only connections broke, or a rank
        started again), every rank got through.
    """
    return _Trial(seed).run()


class _FewWords(MemoryStore):
    """A store that cannot be asked for a key that may not be there, and would wait for it."""

    compare_set: Any = None


class _Trial:
    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.seed = seed
        self.size = rng.randint(2, 4)
        self.syncs = rng.randint(1, 4)
        self.kind = KINDS[seed % len(KINDS)]
        self.odd = rng.randrange(self.size)
        self.leave_at = rng.randint(1, self.syncs)
        store = MemoryStore() if rng.random() < 0.5 else _FewWords()
        self.world = World(self.size, store, seed, most_steps=100_000)
        self.problems: list[str] = []
        self.digests: dict[tuple[str, int], dict[int, str]] = {}
        self.live: list[History | None] = [None] * self.size
        self.checkpoints: list[History] = []
        self.way = "new"  # how the histories of this start come about
        self.clean = True  # nothing is meant to go wrong now

    def run(self) -> list[str]:
        rng = self.rng
        kill = None
        self.clean = self.kind in ("calm", "lost", "restart")
        if self.kind == "lost":
            drop = rng.choice([0.02, 0.1, 0.3])
            self.world.faults = Faults(drop=drop, calls=rng.choice([20, 60, 150]))
        if self.kind in ("kill", "restart"):
            kill = (self.odd, rng.randint(1, 40 * self.syncs + 20))
        if self.kind == "network":
            self.world.faults = Faults()  # sound at first: a past to serve stale values of
            self._start("z", None)
            self.checkpoints.clear()
            self.world.faults = self._faults()
        first = self._start("a", kill)
        if self.kind == "refuse" and "done" in first:
            self._say(f"ranks of two jobs synced with each other: {first}")
        if self.kind in ("abort", "close") and self.leave_at < self.syncs:
            for rank, result in enumerate(first):
                if result == "SyncTimeoutError":
                    self._say(f"rank {rank} never learned that rank {self.odd} left: {first}")
        self.clean = True
        if rng.random() < 0.7:
            self.world.faults = None
        else:  # only what a store may always do
            self.world.faults = Faults(delay=0.05, delay_seconds=0.03)
        # All go on with what they hold, or from one rank's checkpoint (its records that were not
        # synced are dropped by the others), or a new fit starts over what the old one left.
        ways = ["new", "new"]
        if self.kind != "refuse":
            ways += [] if self.kind == "kill" or None in self.live else ["attach"]
            ways += ["checkpoint"] if self.checkpoints else []
        self.kind, self.way = "calm", rng.choice(ways)
        self._start("b" if self.way == "new" else "a", None)
        return self.problems

    def _faults(self) -> Faults:
        rng = self.rng
        names = rng.sample(["delay", "drop", "duplicate", "stale"], rng.randint(1, 3))
        return Faults(**{name: rng.choice([0.002, 0.02, 0.1]) for name in names})

    def _start(self, fit: str, kill: tuple[int, int] | None) -> list[str]:
        def body(rank: int, store: Any) -> str:
            try:
                return self._rank(rank, store, fit)
            except Killed:
                if self.kind != "restart":
                    raise
                return self._rank(rank, self.world.open_store(rank), fit)

        try:
            results = self.world.run(body, kill=kill)
        except StuckError as error:
            self._say(f"a call without end: {error}")
            return []
        told = []
        for rank, result in enumerate(results):
            if not isinstance(result, BaseException):
                told.append(result)
                continue
            told.append(type(result).__name__)
            if not isinstance(result, (Killed, SynchistError)):
                self._say(f"rank {rank} raised {result!r}, which is no error of synchist")
        # Whoever starts again when the others are through finds nobody to meet.
        alone = self.kind == "restart" and "done" in told
        if self.clean and not alone and {*told} != {"done"}:
            self._say(f"nothing went wrong, yet not all ranks got through: {results}")
        return told

    def _rank(self, rank: int, store: Any, fit: str) -> str:
        rng = random.Random(f"{self.seed} {fit} {rank} {self.kind}")
        job = "other" if self.kind == "refuse" and rank == self.odd else "job"
        self.world.sleep(rng.choice([0, 0.01, 0.5]) * rng.random())
        if self.way == "new":
            h = History(store=store, rank=rank, world_size=self.size, job=job)
        else:
            last = max(self.checkpoints, key=len) if self.way == "checkpoint" else self.live[rank]
            assert last is not None
            h = copy.copy(last) if self.way == "checkpoint" else last
            h.attach(store=store, rank=rank, world_size=self.size)
            h.timeout = 60
            self._enter(h, store)
            self._watch(h, rank, fit, len(h))
        self.live[rank] = h
        if self.kind == "restart":
            h.timeout = 60
            self._enter(h, store)
        while len(h) < self.syncs:
            number = len(h)
            if self.kind in ("abort", "close") and rank == self.odd and number == self.leave_at:
                if self.kind == "abort":
                    self._timed(2, "abort", h.abort, "enough")
                else:
                    self._timed(2, "close", h.close, 2)
                return "left"
            if len(h.local) <= number:
                h.new_epoch(v=f"{fit}/{rank}/{number}")
                for value in self._rows(fit, rank, number):
                    h.new_batch(x=value)
            if rng.random() < 0.5:
                self._checkpoint(h)
            try:
                self._sync(h, rng, fit, number)
            except SynchistError as error:
                if self.kind == "restart" and getattr(error, "reason", "") == "restarted":
                    h.attach(store=store, rank=rank, world_size=self.size)
                    self._enter(h, store)
                    continue
                failed = isinstance(error, RankFailedError) and error.rank == self.odd
                if self.kind == "abort" and failed and getattr(error, "reason", "") != "enough":
                    self._say(f"rank {rank} was not told why rank {self.odd} gave up: {error}")
                if rng.random() < 0.5:
                    self._timed(2, "abort", h.abort, error)
                raise
            self._checkpoint(h)
            self._watch(h, rank, fit, number + 1)
        digest = h.digest()
        self._timed(5, "close", h.close, 5)
        if h.digest() != digest:
            self._say(f"rank {rank}: closing changed the history")
        return "done"

    def _checkpoint(self, h: History) -> None:
        if self.way == "new" and not self.clean:
            self.checkpoints.append(copy.copy(h))

    def _enter(self, h: History, store: Any) -> None:
        """Meet; again and again, while ranks start again one by one."""
        for left in reversed(range(_TRIES)):
            try:
                self._timed(60, "entering", h.__enter__)
                return
            except SynchistError as error:
                if left == 0 or getattr(error, "reason", "") != "restarted":
                    raise
                h.attach(store=store, rank=h.rank, world_size=self.size)

    def _sync(self, h: History, rng: random.Random, fit: str, number: int) -> None:
        digest = h.digest()
        agrees = random.Random(f"{self.seed} {fit} {number} agrees").random() < 0.3
        tries = 200 if self.kind == "lost" else _TRIES
        for attempt in range(tries):
            # The last tries are patient: by then everybody comes, or somebody has left.
            timeout = rng.choice(_SHORT) if attempt < tries - 4 else _LONG
            self.world.sleep(rng.choice([0, 0, 0.02, 0.3]) * rng.random())
            try:
                if agrees:
                    self._agree(h, timeout)
                else:
                    self._timed(timeout, "sync", h.sync, timeout=timeout)
                return
            except (SyncTimeoutError, StoreError) as error:
                broken = isinstance(error, StoreError) and self.kind not in ("network", "lost")
                if attempt == tries - 1 or broken:
                    raise
                if rng.random() < 0.3:
                    h.record("late", attempt)
            finally:
                if len(h) <= len(h.local) - 1 and h.digest() != digest:
                    self._say(f"rank {h.rank}: a failed sync changed what an earlier one returned")

    def _agree(self, h: History, timeout: float) -> None:
        told = self._timed(timeout, "agree", h.agree, "sum", h.rank, reduce="sum", timeout=timeout)
        if told != sum(range(self.size)):
            self._say(f"rank {h.rank}: agree returned {told!r}")

    def _timed(
        self, limit: float, what: str, call: Callable[..., Any], *args: Any, **more: Any
    ) -> Any:
        began = self.world.now
        try:
            return call(*args, **more)
        finally:
            took = self.world.now - began
            if took > limit + _GRACE:
                self._say(f"{what} with {limit:g} s took {took:.2f} s")

    def _watch(self, h: History, rank: int, fit: str, number: int) -> None:
        """What a sync returned is right, and the same as on every other rank."""
        if len(h) != number:
            self._say(f"rank {rank}: {len(h)} epochs after {number} syncs")
        returned = self.digests.setdefault((fit, number), {})
        returned[rank] = h.digest()
        if len({*returned.values()}) > 1:
            self._say(f"different digests after sync {number} of fit {fit}: {returned}")
        for epoch in range(min(number, len(h))):
            for other in range(self.size):
                view = h.ranks[other]
                try:
                    value, rows = view[epoch, "v"], []
                    if self._rows(fit, other, epoch):
                        rows = view[epoch, "batches", :, "x"]
                except (KeyError, IndexError):
                    self._say(f"rank {rank} lacks what rank {other} recorded in epoch {epoch}")
                    continue
                if (value, rows) != (f"{fit}/{other}/{epoch}", self._rows(fit, other, epoch)):
                    self._say(f"rank {rank} reads {value!r}, {rows!r} of rank {other}")

    def _rows(self, fit: str, rank: int, epoch: int) -> list[str]:
        """What a rank records: it follows from the seed, so it is the same after a restart."""
        count = random.Random(f"{self.seed} {fit} {rank} {epoch}").randrange(3)
        return [f"{fit}/{rank}/{epoch}/{n}" for n in range(count)]

    def _say(self, problem: str) -> None:
        self.problems.append(f"seed {self.seed} ({KINDS[self.seed % len(KINDS)]}): {problem}")
