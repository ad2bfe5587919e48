"""One history on ranks that are real processes, over real stores, with real signals."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., list[Any]]

STORES = pytest.mark.parametrize("kind", ["dir", "tcp", "file"])


def asleep(pid: int) -> bool:
    """Whether the process waits for something (always, where there is no /proc)."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(") ")[2].startswith("S")


def results(ranks: list[Any]) -> list[Any]:
    found = [rank.result() for rank in ranks]
    ranks[0].tell()
    return found


@STORES
@pytest.mark.parametrize("world", [2, 4])
def test_every_sync_leaves_equal_digests(start: Start, kind: str, world: int) -> None:
    found = results(start("digests", world, kind))
    assert len(found[0]) == 5
    assert len(set(found[0])) == 5
    assert all(digests == found[0] for digests in found)


@STORES
def test_a_second_fit_never_sees_values_of_the_first(start: Start, kind: str) -> None:
    found = results(start("two_fits", 2, kind))
    for seen, _ in found:
        expected = ["first", "first", "second", "second"]
        assert seen == [[[0, tag], [1, tag]] for tag in expected]
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("kind", ["dir", "file"])
def test_a_run_in_the_store_of_a_killed_one_never_sees_its_values(start: Start, kind: str) -> None:
    killed = start("until_killed", 2, kind)
    for rank in killed:
        assert rank.marked() == "running"
    for rank in killed:
        rank.send(signal.SIGKILL)
        rank.process.wait()
    found = results(start("second_run", 2, kind))
    assert found[0] == found[1]
    assert found[0][:2] == [[[0, "fresh"], [1, "fresh"]], 1]


def test_runs_killed_again_and_again_in_one_folder_leave_nothing_that_harms(start: Start) -> None:
    """They are killed at whatever moment; the ranks are not even killed at the same one."""
    for _ in range(4):
        killed = start("until_killed", 3)
        for rank in killed:
            assert rank.marked() == "running"
        for rank in killed:
            rank.send(signal.SIGKILL)
            rank.process.wait()
    found = results(start("second_run", 3))
    assert found[0] == found[1] == found[2]
    assert found[0][:2] == [[[0, "fresh"], [1, "fresh"], [2, "fresh"]], 1]


@STORES
def test_a_rank_that_never_comes_is_named_by_the_deadline(start: Start, kind: str) -> None:
    present = start("never_comes", 3, kind, present=[0, 1])
    assert [rank.marked() for rank in present] == ["here", "here"]
    for rank in present:
        rank.tell()
    for rank in present:
        found = rank.result()
        assert (found["error"], found["missing"]) == ("SyncTimeoutError", [2])
        assert found["seconds"] < 2.5


@STORES
def test_a_rank_that_stops_syncing_is_named_with_the_round(start: Start, kind: str) -> None:
    zero, one = start("stops_syncing", 2, kind)
    one.marked()
    found = zero.result()
    assert (found["error"], found["missing"], found["round"]) == ("SyncTimeoutError", [1], 2)
    assert found["seconds"] < 2.5
    one.tell()
    zero.tell()


@pytest.mark.parametrize("kind", ["dir", "tcp"])
def test_a_killed_rank_ends_the_others_by_their_deadline(start: Start, kind: str) -> None:
    zero, one = start("waits", 2, kind)
    assert (zero.marked(), one.marked()) == ("synced", "synced")
    one.send(signal.SIGKILL)
    found = zero.result()
    assert (found["error"], found["missing"]) == ("SyncTimeoutError", [1])
    assert found["seconds"] < 5


@STORES
def test_only_one_rank_restarts_and_the_run_goes_on_without_a_wait(start: Start, kind: str) -> None:
    zero, one = start("goes_on_when_one_restarts", 2, kind)
    assert (zero.marked(), one.marked()) == ("two epochs", "two epochs")
    one.send(signal.SIGKILL)
    (again,) = start("goes_on_when_one_restarts", 2, kind, present=[1], address=zero.address)
    assert again.marked() == "two epochs"
    survivor, fresh = results([zero, again])
    assert survivor[:3] == [0, [[1, "restarted"]], 3]
    assert fresh[:3] == [2, [], 3]
    assert survivor[3] == fresh[3]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_dead_or_stopped_store_host_ends_the_others_by_their_deadline(
    start: Start, how: signal.Signals
) -> None:
    zero, one = start("waits", 2, "tcp")
    assert (zero.marked(), one.marked()) == ("synced", "synced")
    zero.send(how)
    one.tell()
    found = one.result()
    assert found["error"] in ("StoreError", "SyncTimeoutError")
    assert found["seconds"] < 5


def interrupted(rank: Any) -> Any:
    """What a rank that waits says to Ctrl-C, and after how many seconds."""
    while rank.process.poll() is None and not asleep(rank.process.pid):
        pass  # it is on its way into the wait
    rank.send(signal.SIGINT)
    began = time.monotonic()
    found = rank.result()
    return found["error"], time.monotonic() - began


@STORES
def test_ctrl_c_ends_a_waiting_sync_within_a_second(start: Start, kind: str) -> None:
    zero, one = start("waits", 2, kind)
    assert (zero.marked(), one.marked()) == ("synced", "synced")
    error, seconds = interrupted(zero)
    assert error == "KeyboardInterrupt"
    assert seconds < 1.2


@STORES
def test_ctrl_c_ends_a_waiting_meeting_within_a_second(start: Start, kind: str) -> None:
    (zero,) = start("is_interrupted", 2, kind, present=[0])
    assert zero.marked() == "here"
    error, seconds = interrupted(zero)
    assert error == "KeyboardInterrupt"
    assert seconds < 1.2


def test_ctrl_c_ends_a_sync_within_a_second_also_when_the_store_host_is_stopped(
    start: Start,
) -> None:
    zero, one = start("waits", 2, "tcp")
    assert (zero.marked(), one.marked()) == ("synced", "synced")
    zero.send(signal.SIGSTOP)
    one.tell()
    error, seconds = interrupted(one)
    assert error == "KeyboardInterrupt"
    assert seconds < 1.2


@STORES
def test_a_retry_after_a_timeout_completes_the_round_the_others_completed(
    start: Start, kind: str
) -> None:
    zero, one = start("timeout_then_retry", 2, kind)
    assert (zero.marked(), one.marked()) == ("here", "timed out")
    zero.tell()
    one.tell()
    a, b = results([zero, one])
    assert b["first"]["error"] == "SyncTimeoutError"
    assert a["middle"] == b["middle"]
    assert a["last"] == b["last"] != a["middle"]
    assert a["late"] == b["late"] == 1


@pytest.mark.parametrize(
    ("scenario", "world", "words"),
    [
        ("in_another_order", 2, ["history#1", "history#2"]),
        ("other_rules", 2, ["reduce", "'v'", "mean", "max"]),
        ("same_rank", 3, ["claims rank 1"]),
        ("other_world_size", 2, ["world_size=2", "world_size=3"]),
        ("other_jobs", 2, ["job 'a'", "job 'b'"]),
    ],
)
def test_ranks_that_do_not_fit_are_told_what_differs_on_every_rank(
    start: Start, scenario: str, world: int, words: list[str]
) -> None:
    for found in [rank.result() for rank in start(scenario, world)]:
        assert found["error"] == "DivergenceError"
        assert found["seconds"] < 10
        for word in words:
            assert word in found["text"]


@STORES
def test_an_exception_on_one_rank_reaches_the_others_within_two_seconds(
    start: Start, kind: str
) -> None:
    zero, one = start("aborts", 2, kind)
    assert (zero.marked(), one.marked()) == ("synced", "synced")
    one.tell()
    (found, told), (other, failed) = results([zero, one])
    assert (found["error"], found["rank"]) == ("RankFailedError", 1)
    assert "out of memory" in found["text"]
    assert other == "out of memory"
    assert 0 < told - failed < 2


def test_a_rank_that_was_stopped_for_a_while_ends_with_the_history_of_the_others(
    start: Start,
) -> None:
    """The others time out meanwhile, record that, try again, and lose nothing."""
    zero, one = start("through_a_pause", 2)
    assert one.marked() == "running"
    one.send(signal.SIGSTOP)
    while zero.marked() != "timed out":
        pass
    one.send(signal.SIGCONT)
    (mine, last, failures), (theirs, other_last, _) = results([zero, one])
    assert mine == theirs
    assert last == other_last
    assert failures >= 1


@STORES
def test_the_rank_that_hosts_the_store_waits_in_close_for_those_that_still_read(
    start: Start, kind: str
) -> None:
    zero, one = start("host_leaves_first", 2, kind)
    assert (zero.marked(), one.marked()) == ("here", "SyncTimeoutError")
    zero.tell()
    zero.tell()  # and end at once after close(), taking the server along
    assert zero.marked() == "closing"
    one.tell()
    assert zero.result() == one.result()


@STORES
def test_histories_in_turn_and_a_run_after_clear_work(start: Start, kind: str) -> None:
    found = results(start("in_turn", 2, kind))
    assert found[0] == found[1]
    assert found[0][2:] == [1, 3]


@STORES
def test_a_slow_reader_loses_nothing_when_the_others_clear_and_go_on(
    start: Start, kind: str
) -> None:
    zero, one = start("slow_reader", 2, kind)
    assert one.marked() == "SyncTimeoutError"
    zero.tell()
    assert zero.marked() == "done"
    one.tell()
    a, b = results([zero, one])
    assert a == b
    assert a[2] == [2]


@pytest.mark.parametrize("kind", ["dir", "tcp"])
def test_fifty_megabytes_a_rank_go_through_a_round(start: Start, kind: str) -> None:
    assert results(start("large", 2, kind)) == [[True, True]] * 2


@pytest.mark.parametrize("kind", ["dir", "tcp"])
def test_a_thousand_rounds_leave_two_rounds_of_keys(start: Start, kind: str) -> None:
    assert max(results(start("many_rounds", 2, kind))) <= 2 * 2 + 4
