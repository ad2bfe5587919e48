"""Ranks as real processes, which a test can talk to, stop and kill."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("rank_program.py")


class Rank:
    """A process that plays one rank of a scenario, and then perhaps one of another.

    Lines that it prints arrive in a queue.
    """

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.rank = -1
        self.address = ""
        self._signalled = False
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._drain)]
        for thread in self._threads:
            thread.start()

    def begin(self, scenario: str, rank: int, world: int, address: str) -> None:
        self.rank = rank
        self.address = address
        self._write(f"{scenario} {rank} {world} {address}")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self._errors.extend(self.process.stderr)

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def line(self, seconds: float = 60) -> str:
        """The next line that the rank prints."""
        found = self._lines.get(timeout=seconds)
        if found is None:
            for thread in self._threads:
                thread.join(5)
            raise AssertionError(f"rank {self.rank} ended: {''.join(self._errors)}")
        return found

    def marked(self, seconds: float = 60) -> str:
        """The text of the next mark."""
        found = self.line(seconds)
        assert found.startswith("MARK "), found
        return found.removeprefix("MARK ")

    def result(self, seconds: float = 60) -> Any:
        """What the scenario returned; marks before it are passed over."""
        while (found := self.line(seconds)).startswith("MARK "):
            pass
        return json.loads(found)

    def tell(self) -> None:
        """Write the line that a rank waits for."""
        self._write("")

    def send(self, number: signal.Signals) -> None:
        self._signalled = True
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()
        while number == signal.SIGSTOP and self._state() not in {"T", ""}:
            time.sleep(0.001)  # until it has taken effect

    def _state(self) -> str:
        """The letter that the system has for what the process does; empty where it does not say."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        return stat.read_text().rpartition(") ")[2][:1] if stat.exists() else ""

    def is_done(self) -> bool:
        """Whether it has left its scenario in good order, and can play another rank."""
        if self._signalled or self.process.poll() is not None:
            return False
        self._write("")  # in case it waits for a line
        self._write("ping")
        try:
            while self.line(seconds=2) != "pong":
                pass
        except (queue.Empty, AssertionError):
            return False
        return True

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(10)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def fresh_address(kind: str, folder: Path) -> str:
    if kind != "tcp":
        return f"{kind}://{folder / 'store'}"
    with socket.socket() as free:  # open_store wants to know the port beforehand
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture(scope="session")
def idle() -> Iterator[dict[bool, list[Rank]]]:
    """Ranks that can be used again, with torch (which takes seconds to import) and without."""
    ranks: dict[bool, list[Rank]] = {True: [], False: []}
    yield ranks
    for rank in ranks[True] + ranks[False]:
        rank.end()


@pytest.fixture
def start(tmp_path: Path, idle: dict[bool, list[Rank]]) -> Iterator[Callable[..., list[Rank]]]:
    """`start(scenario, world, kind)`: one process for each rank; `kind` is dir, tcp or file.

    `present`: only these ranks; `address`: of a store that others use already.
    """
    used: list[tuple[bool, Rank]] = []

    def run(
        scenario: str,
        world: int = 2,
        kind: str = "dir",
        present: list[int] | None = None,
        address: str = "",
    ) -> list[Rank]:
        address = address or fresh_address(kind, tmp_path)
        torch = kind != "dir"
        new = []
        for number in present or range(world):
            rank = idle[torch].pop() if idle[torch] else Rank()
            used.append((torch, rank))
            rank.begin(scenario, number, world, address)
            new.append(rank)
        return new

    yield run
    for torch, rank in used:
        if rank.is_done():
            idle[torch].append(rank)
        else:
            rank.end()
