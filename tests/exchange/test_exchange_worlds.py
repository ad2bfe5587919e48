"""Whole worlds of ranks over one store, with delays, short timeouts, retries and deaths.

Every world is drawn from a seed. The oracle: all ranks that return from a round return the same
lists, nothing of an earlier attempt is ever read, nobody hangs, and the store does not fill up.
"""

from __future__ import annotations

import functools
import gc
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synchist import (
    DivergenceError,
    MemoryStore,
    RankFailedError,
    StoreError,
    SyncTimeoutError,
    UsageError,
)
from synchist.deadline import Deadline
from synchist.exchange import StoreExchange


class Killed(BaseException):
    """The process is gone: no more store calls, no goodbye."""


class Jittery:
    """A store that is slow at times, and whose process may die at its n-th call."""

    def __init__(self, store: MemoryStore, rng: random.Random, dies_at: int | None = None) -> None:
        self._store = store
        self._rng = rng
        self._dies_at = dies_at
        self._calls = 0

    def _step(self) -> None:
        self._calls += 1
        if self._dies_at is not None and self._calls >= self._dies_at:
            raise Killed
        chance = self._rng.random()
        if chance < 0.02:
            time.sleep(0.01)
        elif chance < 0.2:
            time.sleep(self._rng.random() * 0.002)

    def set(self, key: str, value: bytes) -> None:
        self._step()
        self._store.set(key, value)

    def get(self, key: str) -> bytes:
        self._step()
        return self._store.get(key)

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        self._step()
        self._store.wait(keys, timeout)

    def check(self, keys: list[str]) -> bool:
        self._step()
        return self._store.check(keys)

    def delete_key(self, key: str) -> bool:
        self._step()
        return self._store.delete_key(key)


def agree_on_anything(mine: bytes, theirs: bytes, rank: int) -> str | None:
    return None


def in_threads(world: int, body: Callable[[int], Any], seconds: float = 60) -> list[Any]:
    """Run `body(rank)` in a thread a rank; what each returned, or the exception it raised."""
    results: list[Any] = [None] * world

    def run(rank: int) -> None:
        try:
            results[rank] = body(rank)
        except BaseException as error:  # noqa: BLE001  (handed to the test)
            results[rank] = error

    threads = [threading.Thread(target=run, args=(r,), daemon=True) for r in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads), "a rank hangs"
    return results


def patiently(call: Callable[[Deadline], Any], rng: random.Random, tries: int = 400) -> Any:
    """Call with random short timeouts until it succeeds."""
    for _ in range(tries):
        try:
            return call(Deadline(rng.choice([0.0, 0.004, 0.01, 0.05, 0.5])))
        except SyncTimeoutError:
            continue
    raise AssertionError("no progress")


def run_rank(store: Any, rank: int, world: int, tag: str, rounds: int, seed: str) -> list[Any]:
    rng = random.Random(seed)
    exchange = StoreExchange(store, rank, world)
    facts = f"{tag}/{rank}".encode()
    patiently(lambda d: exchange.meet(facts, agree_on_anything, d), rng)
    seen = []
    for number in range(rounds):
        size = rng.choice([0, 3, 100])
        payload = f"{tag}/{number}/{rank}/".encode() + bytes(size)
        got = patiently(functools.partial(exchange.gather, payload), rng)
        assert exchange.gather(payload, Deadline(0)) == got, "changed after it was returned"
        exchange.advance()
        seen.append(got)
    exchange.close(5)
    return seen


@given(seed=st.integers(0, 2**32), world=st.integers(2, 4))
def test_everybody_gets_the_same_lists_whatever_the_timeouts(seed: int, world: int) -> None:
    store = MemoryStore()

    def body(rank: int) -> list[Any]:
        rng = random.Random(f"{seed} {rank}")
        return run_rank(Jittery(store, rng), rank, world, "a", 4, f"{seed} {rank} program")

    results = in_threads(world, body)
    assert all(isinstance(result, list) for result in results), results
    assert all(result == results[0] for result in results)
    for number, payloads in enumerate(results[0]):
        for rank, payload in enumerate(payloads):
            assert payload.startswith(f"a/{number}/{rank}/".encode())


@given(seed=st.integers(0, 2**32), world=st.integers(2, 3), dies_at=st.integers(1, 60))
def test_after_a_death_a_new_attempt_reads_nothing_of_the_old_one(
    seed: int, world: int, dies_at: int
) -> None:
    store = MemoryStore()
    victim = seed % world

    def first(rank: int) -> Any:
        rng = random.Random(f"{seed} {rank}")
        jittery = Jittery(store, rng, dies_at if rank == victim else None)
        exchange = StoreExchange(jittery, rank, world)
        done = []
        try:
            exchange.meet(b"old", agree_on_anything, Deadline(0.15))
            for number in range(3):
                done.append(exchange.gather(f"old/{number}/{rank}".encode(), Deadline(0.15)))
                exchange.advance()
        except (SyncTimeoutError, StoreError, Killed):
            pass
        return done

    old = in_threads(world, first)
    for number in range(3):
        returned = [done[number] for done in old if len(done) > number]
        assert all(payloads == returned[0] for payloads in returned)

    def second(rank: int) -> Any:
        rng = random.Random(f"{seed} {rank} again")
        return run_rank(Jittery(store, rng), rank, world, "new", 2, f"{seed} {rank} second")

    results = in_threads(world, second)
    assert all(isinstance(result, list) for result in results), results
    assert all(result == results[0] for result in results)
    assert all(p.startswith(b"new/") for payloads in results[0] for p in payloads)


@pytest.mark.parametrize("world", [2, 4])
def test_a_thousand_rounds_leave_two_rounds_of_keys(world: int) -> None:
    store = MemoryStore()

    def body(rank: int) -> int:
        exchange = StoreExchange(store, rank, world)
        exchange.meet(b"", agree_on_anything, Deadline(20))
        for _ in range(1000):
            exchange.gather(b"x", Deadline(20))
            exchange.advance()
        return store.num_keys()

    counts = in_threads(world, body)
    assert max(counts) <= 2 * world + 4, counts


def test_a_hundred_meetings_leave_no_more_keys_than_one() -> None:
    store = MemoryStore()
    counts = []
    for _ in range(100):

        def body(rank: int) -> None:
            exchange = StoreExchange(store, rank, 2)
            exchange.meet(b"", agree_on_anything, Deadline(20))
            exchange.gather(b"x", Deadline(20))
            exchange.retire()

        assert in_threads(2, body) == [None, None]
        counts.append(store.num_keys())
    assert max(counts) <= counts[0] + 3, counts


def test_refused_meetings_leave_no_keys_behind() -> None:
    store = MemoryStore()
    for _ in range(20):

        def refused(rank: int) -> None:
            StoreExchange(store, rank, 2).meet(b"", lambda *_: "no", Deadline(20))

        assert [type(r) for r in in_threads(2, refused)] == [DivergenceError] * 2

    def body(rank: int) -> None:
        exchange = StoreExchange(store, rank, 2)
        exchange.meet(b"", agree_on_anything, Deadline(20))
        exchange.close(10)

    assert in_threads(2, body) == [None, None]
    assert store.num_keys() <= 4


def test_a_large_payload_goes_in_pieces_and_arrives_whole() -> None:
    store = MemoryStore()
    largest = [0]
    put = store.set

    def watch(key: str, value: Any) -> None:
        largest[0] = max(largest[0], len(value))
        put(key, value)

    store.set = watch  # type: ignore[method-assign]
    payloads = [random.Random(rank).randbytes(11_000_000) for rank in range(2)]

    def body(rank: int) -> list[bytes]:
        exchange = StoreExchange(store, rank, 2)
        exchange.meet(b"", agree_on_anything, Deadline(20))
        for _ in range(3):
            found = exchange.gather(payloads[rank], Deadline(20))
            exchange.advance()
        exchange.close(10)
        return found

    assert in_threads(2, body) == [payloads, payloads]
    assert largest[0] < 8 << 20
    assert store.num_keys() <= 4


def test_a_slow_reader_finishes_its_round_while_the_others_meet_anew() -> None:
    store = MemoryStore()
    published, go_on = threading.Event(), threading.Event()

    def body(rank: int) -> list[list[bytes]]:
        exchange = StoreExchange(store, rank, 2)
        exchange.meet(b"", agree_on_anything, Deadline(20))
        if rank == 1:
            with pytest.raises(SyncTimeoutError):  # published, and cut off before it could read
                exchange.gather(b"1", Deadline(0))
            published.set()
        assert published.wait(20)
        first = exchange.gather(bytes([48 + rank]), Deadline(20)) if rank == 0 else []
        if rank == 0:
            exchange.retire()
            fresh = StoreExchange(store, rank, 2)
            with pytest.raises(SyncTimeoutError):  # it posts its challenge, and nobody comes yet
                fresh.meet(b"", agree_on_anything, Deadline(0.1))
            go_on.set()
        else:
            assert go_on.wait(20)
            first = exchange.gather(b"1", Deadline(20))
            exchange.retire()
            fresh = StoreExchange(store, rank, 2)
        fresh.meet(b"", agree_on_anything, Deadline(20))
        return [first, fresh.gather(b"again", Deadline(20))]

    assert in_threads(2, body) == [[[b"0", b"1"], [b"again", b"again"]]] * 2


def test_two_processes_that_claim_one_rank_are_both_told() -> None:
    store = MemoryStore()

    def body(claimant: int) -> None:
        rank = min(claimant, 1)
        StoreExchange(store, rank, 3).meet(b"", agree_on_anything, Deadline(20))

    results = in_threads(3, body)
    assert all(isinstance(result, DivergenceError) for result in results), results
    assert all("claims rank 1" in str(result) for result in results)


def test_two_processes_that_claim_rank_0_are_both_told() -> None:
    store = MemoryStore()

    def body(_: int) -> None:
        StoreExchange(store, 0, 2).meet(b"", agree_on_anything, Deadline(20))

    results = in_threads(2, body)
    assert all(isinstance(result, DivergenceError) for result in results), results


def test_abort_reaches_waiting_ranks_in_a_round_and_in_a_meeting() -> None:
    for met in (True, False):
        store = MemoryStore()

        def body(rank: int, met: bool = met, store: MemoryStore = store) -> float:
            exchange = StoreExchange(store, rank, 3)
            if rank == 2 and not met:
                exchange.abort("out of memory")
                return 0.0
            if met:
                exchange.meet(b"", agree_on_anything, Deadline(20))
                if rank == 2:
                    exchange.abort("out of memory")
                    return 0.0
            began = time.monotonic()
            with pytest.raises(RankFailedError, match="out of memory") as caught:
                if met:
                    exchange.gather(b"", Deadline(20))
                else:
                    while True:  # the abort may come before there is a challenge: then keep trying
                        try:
                            exchange.meet(b"", agree_on_anything, Deadline(0.2))
                        except SyncTimeoutError:
                            exchange.abort("out of memory")
            assert caught.value.rank in (0, 1, 2)
            return time.monotonic() - began

        if met:
            assert max(in_threads(3, body)) < 2


def test_whoever_waits_for_a_rank_that_closed_is_told_at_once() -> None:
    store = MemoryStore()

    def body(rank: int) -> Any:
        exchange = StoreExchange(store, rank, 2)
        exchange.meet(b"", agree_on_anything, Deadline(20))
        exchange.gather(b"", Deadline(20))
        exchange.advance()
        if rank == 1:
            exchange.close(5)
            return None
        began = time.monotonic()
        with pytest.raises(RankFailedError) as caught:
            exchange.gather(b"", Deadline(20))
        assert caught.value.rank == 1
        began_close = time.monotonic()
        exchange.close(20)
        assert time.monotonic() - began_close < 2.5
        return time.monotonic() - began

    assert in_threads(2, body)[0] < 4


def test_a_timeout_names_the_missing_rank_the_round_and_where_it_was_last_seen() -> None:
    store = MemoryStore()

    def body(rank: int) -> Any:
        exchange = StoreExchange(store, rank, 3)
        exchange.meet(b"", agree_on_anything, Deadline(20))
        exchange.gather(b"", Deadline(20))
        exchange.advance()
        if rank == 1:
            return None
        began = time.monotonic()
        with pytest.raises(SyncTimeoutError) as caught:
            exchange.gather(b"", Deadline(0.5))
        assert time.monotonic() - began < 1.5
        return caught.value

    for error in in_threads(3, body)[::2]:
        assert (error.missing, error.round) == ([1], 2)
        assert list(error.last_seen) == [1]
        assert "round 1" in error.last_seen[1]
        assert "rank 1" in str(error)


def test_a_rank_in_another_history_is_named_in_the_timeout() -> None:
    store = MemoryStore()

    def body(rank: int) -> Any:
        both = [StoreExchange(store, rank, 2, label=label) for label in ("train", "valid")]
        for exchange in both:
            exchange.meet(b"", agree_on_anything, Deadline(20))
        with pytest.raises(SyncTimeoutError) as caught:
            both[rank].gather(b"", Deadline(1.0 + 2.0 * rank))
        return str(caught.value)

    assert "another history, 'valid'" in in_threads(2, body)[0]


def test_late_ranks_are_named_in_a_warning_while_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("synchist.exchange.waiting.WARN_AFTER_SECONDS", 0.1)
    store = MemoryStore()

    def body(rank: int) -> None:
        exchange = StoreExchange(store, rank, 2)
        exchange.meet(b"", agree_on_anything, Deadline(20))
        if rank == 0:
            with pytest.raises(SyncTimeoutError):
                exchange.gather(b"", Deadline(1.0))

    in_threads(2, body)
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert 2 <= len(warnings) <= 4  # at 0.1, 0.2, 0.4 and 0.8 seconds
    assert all("for rank 1" in text for text in warnings)


class Stuck(MemoryStore):
    """A server that was stopped: from some moment on, calls do not come back."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = threading.Event()
        self.never = threading.Event()

    def check(self, keys: Sequence[str]) -> bool:
        if self.stopped.is_set():
            self.never.wait(30)
        return super().check(keys)


@pytest.mark.usefixtures("no_patience")
def test_a_store_that_stops_answering_ends_the_call_by_its_deadline_and_later_calls_at_once() -> (
    None
):
    store = Stuck()
    met = threading.Barrier(2)

    def body(rank: int) -> None:
        exchange = StoreExchange(store, rank, 2)
        exchange.meet(b"", agree_on_anything, Deadline(20))
        met.wait(20)
        if rank == 1:
            return
        store.stopped.set()
        began = time.monotonic()
        with pytest.raises(StoreError, match="did not answer"):
            exchange.gather(b"", Deadline(0.5))
        assert 0.4 < time.monotonic() - began < 10  # the store stands still for 30
        began = time.monotonic()
        with pytest.raises(StoreError, match="attach"):
            exchange.gather(b"", Deadline(20))
        exchange.abort("x")
        exchange.close(20)
        assert time.monotonic() - began < 10

    results = in_threads(2, body)
    store.never.set()
    assert results == [None, None]


class FourMethods:
    """A store of the four methods, and not one more."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def get(self, key: str) -> bytes:
        return self._store.get(key)

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        self._store.wait(keys, timeout)

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(key)


def test_four_methods_are_enough() -> None:
    store = FourMethods(MemoryStore())

    def body(rank: int) -> list[Any]:
        return run_rank(store, rank, 3, "a", 3, f"{rank}")

    results = in_threads(3, body)
    assert results[0] == results[1] == results[2], results


@given(garbage=st.binary(max_size=40), which=st.sampled_from(["challenge", "last/"]))
def test_garbage_under_our_keys_is_never_believed_and_does_no_harm(
    garbage: bytes, which: str
) -> None:
    store = MemoryStore()
    store.set(f"synchist/{which}", garbage)

    def body(rank: int) -> Any:
        exchange = StoreExchange(store, rank, 2)
        exchange.meet(b"", agree_on_anything, Deadline(20))
        return exchange.gather(bytes([rank]), Deadline(20))

    for result in in_threads(2, body):
        assert result == [b"\0", b"\1"], result


def test_one_rank_neither_talks_nor_waits() -> None:
    store = MemoryStore()
    exchange = StoreExchange(store, 0, 1)
    assert exchange.meet(b"f", agree_on_anything, Deadline(0)) == [b"f"]
    assert exchange.gather(b"x", Deadline(0)) == [b"x"]
    exchange.advance()
    exchange.close(0)
    assert store.num_keys() == 0


def test_calls_after_abort_or_close_say_so() -> None:
    for end in ("abort", "close"):
        exchange = StoreExchange(MemoryStore(), 0, 2)
        exchange.abort("x") if end == "abort" else exchange.close(0)
        with pytest.raises(UsageError):
            exchange.meet(b"", agree_on_anything, Deadline(0))


def test_an_exchange_that_is_dropped_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    exchange = StoreExchange(MemoryStore(), 0, 2)
    with pytest.raises(SyncTimeoutError):
        exchange.meet(b"", agree_on_anything, Deadline(0))
    (thread,) = set(threading.enumerate()) - before
    del exchange
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
