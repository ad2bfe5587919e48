"""distributed_history(): finds rank, world size and store wherever the ranks come from."""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from synchist import History, MemoryStore, UsageError
from synchist_torch import distributed_history, launch

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def histories(rank_functions: ModuleType) -> ModuleType:
    """Lies beside the other functions to launch."""
    return importlib.import_module("histories")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name in VARIABLES or name.startswith("TORCHELASTIC_"):
            monkeypatch.delenv(name)
    if sys.platform == "linux":
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")


def assert_agreed(results: list[dict[str, Any]], epochs: int) -> None:
    """The ranks went through the same histories, with the records of all of them."""
    assert [result["rank"] for result in results] == list(range(len(results)))
    for result in results:
        assert len(set(result["digests"])) == epochs
        assert result["digests"] == results[0]["digests"]
        assert sorted(result["losses"]) == sorted(
            float(batch) for rank in range(len(results)) for batch in range(2 + rank)
        )


def test_over_the_process_groups_own_store(histories: ModuleType, tmp_path: Path) -> None:
    results = launch(histories.over_the_group, str(tmp_path / "store"), timeout=90)
    assert_agreed([result["first"] for result in results], epochs=2)
    assert_agreed([result["second"] for result in results], epochs=3)
    assert_agreed([result["second group"] for result in results], epochs=2)
    for result in results:
        a, b = result["at once"]
        assert [epoch["name"] for epoch in a] == ["a", "a"]
        assert [epoch["name"] for epoch in b] == ["b"]
        assert result["same object"]
        assert result["let go"]


def test_over_a_store_of_its_own_where_torch_does_not_give_its_away(
    histories: ModuleType,
) -> None:
    results = launch(histories.without_the_private_name, timeout=90)
    for result in results:
        assert result["error"] == "rank 0 could not host a store for the history"
    assert_agreed([result["first"] for result in results], epochs=2)
    assert_agreed([result["second"] for result in results], epochs=2)


def results_in(folder: Path) -> list[Any]:
    """By history and rank."""
    by_rank = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    return list(zip(*by_rank, strict=True))


def assert_three_fits(folder: Path, world_size: int) -> None:
    fits = results_in(folder)
    assert [len(results) for results in fits] == [world_size] * 3
    for results, epochs in zip(fits, (2, 3, 2), strict=True):
        assert_agreed(results, epochs)


@pytest.mark.parametrize("own_store", ["0", "1"], ids=["the agent's store", "rank 0 hosts"])
def test_under_torchrun(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_store: str
) -> None:
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", own_store)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*torchrun, str(programs / "fit.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    # The three fits are done when the files are there; the interpreter may still abort at its exit,
    # as processes that used torch.distributed on the CPU do now and then.
    assert len(list(tmp_path.glob("*.json"))) == 2, done.stderr
    assert_three_fits(tmp_path, world_size=2)


def test_with_an_environment_set_by_hand(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 hosts the store, and init_process_group shares the port with us."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        monkeypatch.setenv("MASTER_PORT", str(probe.getsockname()[1]))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    processes = []
    for rank in (1, 0):
        monkeypatch.setenv("RANK", str(rank))
        command = [sys.executable, str(programs / "fit.py"), str(tmp_path)]
        processes.append(subprocess.Popen(command))
    for process in processes:
        process.wait(timeout=100)
    assert_three_fits(tmp_path, world_size=2)


def test_local_when_nothing_is_initialised() -> None:
    h = distributed_history(timeout=7, reduce={"dur": "max"})
    assert isinstance(h, History)
    assert (h.rank, h.world_size, h.timeout) == (0, 1, 7)
    with h:
        h.new_epoch(dur=1)
        h.sync()
        assert h[-1, "dur"] == 1


def test_local_when_the_environment_says_that_it_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert distributed_history().world_size == 1


def test_what_is_given_is_taken() -> None:
    store, digests = MemoryStore(), dict[int, str]()

    def run(rank: int) -> None:
        with distributed_history(store=store, rank=rank, world_size=2, timeout=30) as h:
            h.new_epoch(lr=0.1)
            h.sync()
            digests[rank] = h.digest()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert digests[0] == digests[1]


def test_a_store_takes_its_place_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    h = distributed_history(store=MemoryStore())
    assert (h.rank, h.world_size) == (1, 3)
    h = distributed_history(store=MemoryStore(), rank=0, world_size=2)
    assert (h.rank, h.world_size) == (0, 2)


@pytest.mark.parametrize(
    ("given", "environ", "message"),
    [
        ({"rank": 1}, {}, "give both rank= and world_size="),
        ({"world_size": 2}, {}, "give both rank= and world_size="),
        ({"store": MemoryStore()}, {}, "give both rank= and world_size="),
        ({"rank": 1, "world_size": 2}, {}, "MASTER_ADDR and MASTER_PORT is not set"),
        (
            {},
            {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a"},
            "this is rank 1 of 2, but MASTER_PORT is not set: start with torchrun",
        ),
        ({}, {"RANK": "one", "WORLD_SIZE": "2"}, "RANK='one' and WORLD_SIZE='2' must be numbers"),
    ],
)
def test_half_of_a_place_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], environ: dict[str, str], message: str
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=message):
        distributed_history(**given)
