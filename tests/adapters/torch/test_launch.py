"""launch(): what ranks see, what comes back, how failures are told, and that nothing is left."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from synchist import RankFailedError, SyncTimeoutError, UsageError
from synchist_torch import c10d, launch, launcher

AwaitGone = Callable[[Iterable[int]], None]


def pids(folder: Path) -> list[int]:
    return [int(file.read_text()) for file in folder.glob("*.pid")]


def test_ranks_form_a_group_and_return_large_values_in_order(
    rank_functions: ModuleType, monkeypatch: pytest.MonkeyPatch, await_gone: AwaitGone
) -> None:
    """Much more is returned than a pipe holds (64 kB)."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setenv("MASTER_ADDR", "of another group")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "of another group")
    before = dict(os.environ)
    results: list[dict[str, Any]] = launch(rank_functions.report, 5_000_000, timeout=60)
    assert dict(os.environ) == before
    assert [result["rank"] for result in results] == [0, 1]
    for rank, result in enumerate(results):
        assert result["world_size"] == 2
        assert result["total"].tolist() == [3.0]
        assert len(result["large"]) == 5_000_000
        assert result["threads"] == 1
        environ = result["environ"]
        assert environ["RANK"] == environ["LOCAL_RANK"] == str(rank)
        assert environ["WORLD_SIZE"] == environ["LOCAL_WORLD_SIZE"] == "2"
        assert environ["OMP_NUM_THREADS"] == "1"
        assert environ["MASTER_ADDR"] is environ["TORCHELASTIC_RUN_ID"] is None
        if sys.platform == "linux":
            assert environ["GLOO_SOCKET_IFNAME"] == "lo"
    assert results[0]["environ"]["SYNCHIST_JOB"] == results[1]["environ"]["SYNCHIST_JOB"]
    await_gone(result["pid"] for result in results)
    assert multiprocessing.active_children() == []


def test_every_launch_has_a_job_of_its_own_and_keeps_what_the_user_set(
    rank_functions: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("SYNCHIST_JOB", "the outer one")
    ((result,), (other,)) = (
        launch(rank_functions.report, 1, world_size=1, timeout=60) for _ in range(2)
    )
    jobs = {result["environ"]["SYNCHIST_JOB"], other["environ"]["SYNCHIST_JOB"]}
    assert len(jobs - {"the outer one"}) == 2
    assert result["threads"] == 2
    assert result["environ"]["GLOO_SOCKET_IFNAME"] == "lo"


def test_a_partial_of_an_importable_function_will_do(rank_functions: ModuleType) -> None:
    add = functools.partial(rank_functions.add, b=2)
    assert launch(add, 40, world_size=3, timeout=60) == [42, 43, 44]


def test_exit_work_is_done_but_cpp_is_not_torn_down(
    rank_functions: ModuleType,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rank has registered abort() to be called by C's exit()."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    assert launch(rank_functions.leave_late, str(tmp_path), timeout=60) == ["returned", None]
    done = {f"{rank}.{what}" for rank in (0, 1) for what in ("thread", "pool", "atexit")}
    assert {file.name for file in tmp_path.iterdir()} == done
    output = capfd.readouterr().out
    assert "<written by rank 0>" in output
    assert "<written by rank 1>" in output


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is no loopback address")
def test_the_store_of_the_ranks_cannot_be_reached_from_outside() -> None:
    server = launcher._server(use_libuv=True)
    assert isinstance(server, c10d.TCPStore)
    socket.create_connection(("127.0.0.1", server.port), timeout=10).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), timeout=10)


@pytest.mark.parametrize(
    ("how", "reason", "cause"),
    [
        ("collective", "ValueError: the reason: collective", ValueError),
        ("deaf", "ValueError: the reason: deaf", ValueError),
        ("kill", "was killed by SIGKILL before it had returned", type(None)),
        ("quietly killed", "was killed by SIGKILL before it had returned", type(None)),
        ("exit", "SystemExit: 3", SystemExit),
        ("interrupt", "KeyboardInterrupt", KeyboardInterrupt),
        ("unkind", "rank_functions.Unkind: 1 and 2", type(None)),
        ("not picklable", "rank_functions.NotPicklable: the reason: a lock", type(None)),
        ("abort at exit", "was killed by SIGABRT after it had returned", type(None)),
        ("code at exit", "left with exit code 7 after it had returned", type(None)),
    ],
)
def test_the_first_failure_is_raised_and_the_other_rank_is_ended(
    rank_functions: ModuleType,
    tmp_path: Path,
    await_gone: AwaitGone,
    how: str,
    reason: str,
    cause: type,
) -> None:
    """Rank 1 fails; rank 0 has returned, sleeps, waits in a collective, or ignores SIGTERM."""
    with pytest.raises(RankFailedError) as caught:
        launch(rank_functions.fail_in, how, str(tmp_path), timeout=60)
    error = caught.value
    assert (error.rank, error.reason) == (1, reason)
    message = str(error)
    assert message.startswith("rank 1 ")
    if ": " in reason:
        assert "line " in message  # the traceback
        assert "in _fail" in message
        assert "synchist_torch" not in message  # and nothing of ours in it
    assert type(error.__cause__) is cause
    if how not in ("collective", "kill"):
        assert "then rank" not in message
    assert len(pids(tmp_path)) == 2
    await_gone(pids(tmp_path))
    assert multiprocessing.active_children() == []


def test_a_rank_that_only_passes_on_a_failure_is_not_the_first(
    rank_functions: ModuleType, await_gone: AwaitGone
) -> None:
    """Rank 0 says at once that rank 1 failed; rank 1 says a second later how it did."""
    with pytest.raises(RankFailedError) as caught:
        launch(rank_functions.fail_and_be_told, timeout=60)
    assert (caught.value.rank, caught.value.reason) == (1, "ValueError: the reason")
    assert "then rank 0 failed: " in str(caught.value)


def test_the_timeout_names_the_ranks_and_ends_them(rank_functions: ModuleType) -> None:
    began = time.monotonic()
    with pytest.raises(SyncTimeoutError, match=r"after 0\.2 s .* rank 0, 1;") as caught:
        launch(rank_functions.add, 1, 2, timeout=0.2)
    assert caught.value.missing == [0, 1]
    assert time.monotonic() - began < 10
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("return_lock", r"^rank 0 returned a value that cannot be pickled: .*lock"),
        ("return_only_there", r"^rank 0 returned a value that cannot be rebuilt here: .*not here"),
    ],
)
def test_a_value_that_cannot_come_back_is_an_error(
    rank_functions: ModuleType, function: str, message: str
) -> None:
    with pytest.raises(RankFailedError, match=message) as caught:
        launch(getattr(rank_functions, function), world_size=1, timeout=60)
    assert caught.value.rank == 0


def at_the_top() -> None:
    pass


class Local:
    def method(self) -> None:
        pass


def test_a_function_that_no_process_could_import_is_refused_before_any_starts(
    rank_functions: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nested() -> None:
        pass

    class Nested:
        pass

    def start(*_: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(multiprocessing.get_context("spawn").Process, "start", start)
    unknown = ModuleType("no_such_module")
    monkeypatch.setitem(sys.modules, "no_such_module", unknown)
    exec("def made_up(): pass", vars(unknown))  # noqa: S102
    for fn, args, why in (
        (lambda: None, (), "it is a lambda"),
        (nested, (), "nested: it is defined inside test_a_function"),
        (functools.partial(nested), (), "nested: it is defined inside"),
        (rank_functions.add, (1, [Nested()]), "Nested: it is defined inside"),
        (unknown.made_up, (), "its module no_such_module is in no folder of sys.path"),
    ):
        with pytest.raises(UsageError, match=why) as caught:
            launch(fn, *args)
        assert "top level of a .py file" in str(caught.value)
        assert 'if __name__ == "__main__":' in str(caught.value)
    with pytest.raises(UsageError, match=r"argument 2 of fn .*TypeError: cannot pickle"):
        launch(rank_functions.add, 1, (number for number in (1, 2)))
    with pytest.raises(UsageError, match="needs a function, got 3"):
        launch(3)  # type: ignore[arg-type]
    size: Any
    for size in (0, -1, True, "2", 1.0):
        with pytest.raises(UsageError, match="world_size must be an int of 1 or more"):
            launch(rank_functions.add, 1, 2, world_size=size)


def test_a_function_of_an_interactive_session_is_refused() -> None:
    """What is read from standard input is in no file, as in a notebook."""
    code = "from synchist_torch import launch\ndef fn(): pass\nlaunch(fn)\n"
    done = subprocess.run(
        [sys.executable, "-"], input=code, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "UsageError: " in done.stderr
    assert "cannot import fn: it was typed into an interactive session" in done.stderr


def test_a_script_without_a_main_guard_is_told_so(programs: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(programs / "unguarded.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    in_the_rank, _, in_the_parent = done.stderr.partition("RankFailedError")
    assert "UsageError: launch() was called while" in in_the_rank
    assert 'outside of `if __name__ == "__main__":`' in in_the_parent


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_nothing_outlives_the_launching_process(
    programs: Path, tmp_path: Path, await_gone: AwaitGone, name: str
) -> None:
    """Ctrl-C goes to the whole group, as from a terminal; what the ranks started ends too."""
    number = getattr(signal, name)
    parent = subprocess.Popen(
        [sys.executable, str(programs / "waits.py"), str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while len(list(tmp_path.glob("*.pid"))) < 2:
        assert parent.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(parent.pid, number)
    _, errors = parent.communicate(timeout=20)
    assert parent.returncode == -number
    if name == "SIGINT":
        assert errors.count("KeyboardInterrupt") == 1  # the launcher's; the ranks are spared
    await_gone(pids(tmp_path))
    await_gone(int(file.read_text()) for file in tmp_path.glob("*.child"))
