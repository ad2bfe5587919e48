"""A process that plays ranks of scenarios, as it is told on its standard input.

Prints `MARK text` lines for the test to wait for, and a scenario's result as JSON. Only scenarios
over TCP or FileStore import torch, so the others start in a moment.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from synchist import DirectoryStore, History, RankFailedError, SynchistError, SyncTimeoutError


def store_at(address: str, rank: int, world: int) -> Any:
    if address.startswith("dir://"):
        return DirectoryStore(address.removeprefix("dir://"))
    from synchist_torch import open_store

    return open_store(address, rank=rank, world_size=world, timeout=20)


def mark(text: str) -> None:
    print("MARK", text, flush=True)


def wait_for_line() -> None:
    """Until the test writes a line."""
    sys.stdin.readline()


def error_of(call: Callable[[], Any]) -> dict[str, Any]:
    began = time.monotonic()
    try:
        call()
    except (SynchistError, KeyboardInterrupt) as error:
        facts = {name: getattr(error, name, None) for name in ("missing", "round", "rank")}
        return {
            "error": type(error).__name__,
            "text": str(error),
            "seconds": time.monotonic() - began,
            **facts,
        }
    return {"error": None, "seconds": time.monotonic() - began}


def fill_epoch(h: History, rank: int, epoch: int, tag: str = "") -> None:
    rng = random.Random(f"{tag} {rank} {epoch}")
    h.new_epoch(lr=0.1)
    for batch in range(3 + rank):  # ragged
        h.new_batch(loss=rng.random(), batch_size=batch)
        h.record_batch(f"only{rank}", batch)
    if rank == 0:
        h.record("f1", rng.random())
    h.record("tag", tag)


def digests(store: Any, rank: int, world: int) -> Any:
    found = []
    with History(store=store, rank=rank, world_size=world, timeout=30) as h:
        for epoch in range(4):
            fill_epoch(h, rank, epoch)
            h.sync()
            found.append(h.digest())
            h.record_batch("late", epoch)
        h.sync()
        assert h[:, "f1"] == h.ranks[0][:, "f1"]
        return [*found, h.digest()]


def two_fits(store: Any, rank: int, world: int) -> Any:
    """Rank 1 is slow in the second fit; nobody may read what the first left."""
    seen = []
    with History(store=store, rank=rank, world_size=world, timeout=30) as h:
        for fit in ("first", "second"):
            for epoch in range(2):
                if rank == 1 and fit == "second":
                    time.sleep(0.3)  # the point of the scenario, not a synchronisation
                fill_epoch(h, rank, epoch, fit)
                h.sync()
                seen.append(sorted(h.per_rank(-1, "tag").items()))
            if fit == "first":
                h.clear()
        return seen, h.digest()


def until_killed(store: Any, rank: int, world: int) -> Any:
    h = History(store=store, rank=rank, world_size=world, timeout=60)
    for epoch in range(10**6):
        fill_epoch(h, rank, epoch, "killed")
        h.sync()
        if epoch == 3:
            mark("running")


def goes_on_when_one_restarts(store: Any, rank: int, world: int) -> Any:
    """Three epochs; a rank that is told of a restart attaches, and the epoch is not lost."""
    told = []
    h = History(store=store, rank=rank, world_size=world, timeout=60)
    with h:
        began_with = len(h)
        while len(h) < 3:
            if len(h.local) <= len(h):  # else it was recorded before the other rank was lost
                fill_epoch(h, rank, len(h), "run")
            if len(h) == 2:
                mark("two epochs")
                if rank == world - 1 and not began_with:
                    wait_for_line()  # it is killed here
            try:
                h.sync()
            except RankFailedError as error:
                told.append([error.rank, error.reason])
                h.attach(store=store, rank=rank, world_size=world)
        return [began_with, told, len(h), h.digest()]


def second_run(store: Any, rank: int, world: int) -> Any:
    with History(store=store, rank=rank, world_size=world, timeout=30) as h:
        fill_epoch(h, rank, 0, "fresh")
        h.sync()
        return [sorted(h.per_rank(-1, "tag").items()), len(h), h.digest()]


def never_comes(store: Any, rank: int, world: int) -> Any:
    h = History(store=store, rank=rank, world_size=world, timeout=1.5)
    mark("here")
    wait_for_line()
    return error_of(h.sync)


def stops_syncing(store: Any, rank: int, world: int) -> Any:
    """Rank 1 stays, but never comes to the second round."""
    h = History(store=store, rank=rank, world_size=world, timeout=30)
    h.sync()
    if rank == 1:
        mark("synced")
        wait_for_line()
        return None
    return error_of(lambda: h.sync(timeout=1.5))


def waits(store: Any, rank: int, world: int) -> Any:
    """Syncs once; then the last rank waits for a line, and the others for it."""
    h = History(store=store, rank=rank, world_size=world, timeout=60)
    h.sync()

    def wait() -> None:
        mark("synced")
        if rank == world - 1:
            wait_for_line()
        h.sync(timeout=4)

    return error_of(wait)


def timeout_then_retry(store: Any, rank: int, world: int) -> Any:
    """Rank 0 completes round 2; rank 1 published it, timed out, recorded more, and retries."""
    h = History(store=store, rank=rank, world_size=world, timeout=30)
    h.sync()
    h.new_epoch(v=rank)
    if rank == 1:
        first = error_of(lambda: h.sync(timeout=0.5))
        h.record("late", 1)
        mark("timed out")
        wait_for_line()
        h.sync()
        middle = h.digest()
    else:
        first = None
        mark("here")
        wait_for_line()
        h.sync()
        middle = h.digest()
    h.sync()
    return {"first": first, "middle": middle, "last": h.digest(), "late": h[-1, "late"]}


def in_another_order(store: Any, rank: int, world: int) -> Any:
    both = [History(store=store, rank=rank, world_size=world, timeout=20) for _ in range(2)]
    for number, h in enumerate(both):
        fill_epoch(h, rank, 0, f"history {number}")
    found = error_of((both if rank == 0 else both[::-1])[0].sync)
    assert [len(h) for h in both] == [0, 0]  # nobody's values landed in another history
    return found


def other_jobs(store: Any, rank: int, world: int) -> Any:
    job = "ab"[rank]
    return error_of(History(store=store, rank=rank, world_size=world, timeout=20, job=job).sync)


def other_rules(store: Any, rank: int, world: int) -> Any:
    rule = "mean" if rank == 0 else "max"
    return error_of(
        History(store=store, rank=rank, world_size=world, timeout=20, reduce={"v": rule}).sync
    )


def same_rank(store: Any, rank: int, world: int) -> Any:
    """All but rank 0 claim rank 1."""
    return error_of(History(store=store, rank=min(rank, 1), world_size=world, timeout=20).sync)


def other_world_size(store: Any, rank: int, world: int) -> Any:
    return error_of(History(store=store, rank=rank, world_size=world + rank, timeout=20).sync)


def aborts(store: Any, rank: int, world: int) -> Any:
    """Rank 1 fails while rank 0 waits for it; the moments are comparable within one machine."""
    failed = None

    def run() -> None:
        nonlocal failed
        with History(store=store, rank=rank, world_size=world, timeout=30) as h:
            h.sync()
            mark("synced")
            if rank == 1:
                wait_for_line()
                failed = time.monotonic()
                raise MemoryError("out of memory")
            h.sync()

    try:
        return [error_of(run), time.monotonic()]
    except MemoryError as error:
        return [str(error), failed]


def through_a_pause(store: Any, rank: int, world: int) -> Any:
    """Rank 1 is stopped for a while; rank 0 times out meanwhile, and tries again."""
    h = History(store=store, rank=rank, world_size=world, timeout=60)
    h.sync()
    found, failures = [], 0
    for epoch in range(300):
        fill_epoch(h, rank, epoch)
        while True:
            try:
                h.sync(timeout=0.5 if rank == 0 else 60)
                break
            except SyncTimeoutError as error:
                assert error.missing == [1]
                failures += 1
                h.record("failures", failures)
                if failures == 1:
                    mark("timed out")
        found.append(h.digest())
        if epoch == 20:
            mark("running")
    h.sync()
    return [found, h.digest(), failures]


def host_leaves_first(store: Any, rank: int, world: int) -> Any:
    """Rank 1 was cut off while it read the last round; rank 0 is done and closes."""
    h = History(store=store, rank=rank, world_size=world, timeout=20)
    h.sync()
    fill_epoch(h, rank, 0)
    if rank == 1:
        mark(str(error_of(lambda: h.sync(timeout=0.3))["error"]))
        wait_for_line()
        h.sync()
    else:
        mark("here")
        wait_for_line()
        h.sync()
        mark("closing")
    h.close()
    return h.digest()


def is_interrupted(store: Any, rank: int, world: int) -> Any:
    """Waits where nobody comes: for a meeting."""
    h = History(store=store, rank=rank, world_size=world, timeout=60)
    mark("here")
    return error_of(h.sync)


def in_turn(store: Any, rank: int, world: int) -> Any:
    """Two histories used in turn, and a run after `clear()`."""
    a, b = (History(store=store, rank=rank, world_size=world, timeout=20) for _ in range(2))
    for number in range(6):
        h = a if number % 2 else b
        fill_epoch(h, rank, number, "ab"[number % 2])
        h.sync()
    assert a[:, "lr"] == b[:, "lr"] == [0.1] * 3
    a.clear()
    fill_epoch(a, rank, 0, "again")
    a.sync()
    b.close()
    a.close()
    return [a.digest(), b.digest(), len(a), len(b)]


def slow_reader(store: Any, rank: int, world: int) -> Any:
    """Rank 1 is cut off while it reads round 2; the others clear() and go on."""
    h = History(store=store, rank=rank, world_size=world, timeout=30)
    h.sync()
    h.new_epoch(v=1)
    if rank == 1:
        mark(str(error_of(lambda: h.sync(timeout=0.3))["error"]))
        wait_for_line()
        h.sync()
    else:
        wait_for_line()
        h.sync()
        mark("done")
    before = h.digest()
    h.clear()
    h.new_epoch(v=2)
    h.sync()
    return [before, h.digest(), h[:, "v"]]


def large(store: Any, rank: int, world: int) -> Any:
    with History(store=store, rank=rank, world_size=world, timeout=60) as h:
        h.new_epoch(blob=bytes([rank]) * 50_000_000)
        h.sync()
        blobs = h.per_rank(-1, "blob")
        return [len(blobs[r]) == 50_000_000 and blobs[r][:1] == bytes([r]) for r in range(world)]


def many_rounds(store: Any, rank: int, world: int) -> Any:
    h = History(store=store, rank=rank, world_size=world, timeout=30)
    h.new_epoch()
    most = 0
    for number in range(1000):
        h.record("v", number)
        h.sync()
        if number % 50 == 49:
            most = max(most, store.num_keys())
    return most


def play(scenario: str, rank: int, world: int, address: str) -> None:
    result = globals()[scenario](store_at(address, rank, world), rank, world)
    print(json.dumps(result), flush=True)
    if address.startswith("tcp://") and rank == 0:
        wait_for_line()  # the server lives here: the test says when everybody is done


if __name__ == "__main__":
    # A request a line, `SCENARIO RANK WORLD STORE`; empty ones were meant for an earlier scenario.
    while request := sys.stdin.readline():
        words = request.split()
        if words == ["ping"]:
            gc.collect()  # stores and servers of the last scenario are gone before the next one
            print("pong", flush=True)
        elif words:
            play(words[0], int(words[1]), int(words[2]), words[3])
    sys.stdout.flush()
    os._exit(0)
