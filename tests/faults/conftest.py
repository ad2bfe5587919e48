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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("rank_program.py")


class Rank:
    """A running rank. Lines that it prints arrive in a queue."""

    def __init__(self, scenario: str, rank: int, world: int, address: str) -> None:
        self.rank = rank
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), scenario, str(rank), str(world), address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._drain)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self._errors.extend(self.process.stderr)

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
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(10)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., list[Rank]]]:
    """`start(scenario, world, kind)`: one process for each rank; `kind` is dir, tcp or file."""
    ranks: list[Rank] = []

    def run(
        scenario: str, world: int = 2, kind: str = "dir", present: list[int] | None = None
    ) -> list[Rank]:
        if kind == "tcp":
            with socket.socket() as free:  # open_store wants to know the port beforehand
                free.bind(("127.0.0.1", 0))
                address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        else:
            address = f"{kind}://{tmp_path / 'store'}"
        new = [Rank(scenario, r, world, address) for r in present or range(world)]
        ranks.extend(new)
        return new

    yield run
    for rank in ranks:
        rank.end()
