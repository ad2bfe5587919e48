"""open_store(): every form of address, and errors in time instead of hangs."""

from __future__ import annotations

import gc
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from synchist import DirectoryStore, Store, StoreError, UsageError
from synchist_torch import c10d, connecting, open_store, stores


@pytest.fixture
def listener() -> Any:
    """A socket that listens and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        yield mute


def port_of(store: Store) -> int:
    return cast(Any, store).port  # type: ignore[no-any-return]


def test_tcp_rank_0_hosts_and_the_others_connect() -> None:
    """The server lives on although nobody holds rank 0's store: histories talk through clones."""
    port = port_of(open_store("tcp://127.0.0.1:0", rank=0, world_size=1))
    gc.collect()
    first, second = (
        open_store(f"tcp://127.0.0.1:{port}", rank=rank, world_size=3, timeout=10)
        for rank in (1, 2)
    )
    first.set("a", b"1")
    assert second.get("a") == b"1"


def test_tcp_rank_0_may_come_last_and_may_open_it_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(open_store, address, rank=1, world_size=2, timeout=30)
        host = open_store(address, rank=0, world_size=2, timeout=30)
        again = open_store(address, rank=0, world_size=2, timeout=30)
        host.set("a", b"1")
        assert other.result(30).get("a") == b"1"
        assert again.get("a") == b"1"


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_tcp_takes_an_ipv6_address_in_brackets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 loopback here")
    port = port_of(open_store("tcp://[::1]:0", rank=0, world_size=1))
    other = open_store(f"tcp://[::1]:{port}", rank=1, world_size=2, timeout=10)
    other.set("a", b"1")


def test_tcp_a_taken_port_is_an_error_at_once(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with pytest.raises(StoreError, match=f"127.0.0.1:{port}: the port is taken"):
        open_store(f"tcp://127.0.0.1:{port}", rank=0, world_size=2, timeout=30)


@pytest.mark.parametrize("mute", [True, False], ids=["mute", "nobody there"])
def test_tcp_a_server_that_does_not_answer_is_an_error_in_time(
    listener: socket.socket, mute: bool
) -> None:
    """torch itself waits for ever in the first case."""
    address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    if not mute:
        listener.close()
    began = time.monotonic()
    with pytest.raises(StoreError, match=r"no store answered at 127.0.0.1:\d+ within 1 s"):
        open_store(address, rank=1, world_size=2, timeout=1)
    assert time.monotonic() - began < 2.5


def test_the_timeout_of_the_store_itself_is_set(tmp_path: Path) -> None:
    addresses = ["tcp://127.0.0.1:0", f"file://{tmp_path}/file", f"dir://{tmp_path}/dir"]
    for address in addresses:
        store = open_store(address, rank=0, world_size=1, timeout=1)
        began = time.monotonic()
        with pytest.raises((RuntimeError, TimeoutError)):
            store.get("never")
        assert time.monotonic() - began < 10


def test_file_is_shared_by_the_ranks(tmp_path: Path) -> None:
    address = f"file://{tmp_path}/a b%20c"
    first, second = (open_store(address, rank=rank, world_size=2) for rank in (0, 1))
    assert isinstance(first, c10d.FileStore)
    first.set("a", b"1")
    assert second.get("a") == b"1"
    assert os.listdir(tmp_path) == ["a b%20c"]


def test_file_in_no_folder_or_a_folder_is_an_error_at_once(tmp_path: Path) -> None:
    """torch itself tries again for minutes."""
    with pytest.raises(StoreError, match=r"there is no folder .*missing"):
        open_store(f"file://{tmp_path}/missing/file", rank=0, world_size=2)
    with pytest.raises(StoreError, match="it is a folder; use dir://"):
        open_store(f"file://{tmp_path}", rank=0, world_size=2)


def test_dir_is_a_directory_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("DIR://run/store", rank=1, world_size=2, timeout=7)
    assert isinstance(store, DirectoryStore)
    assert (store.path, store.timeout) == (str(tmp_path / "run" / "store"), 7)


def test_windows_paths_may_have_a_leading_slash(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        paths = [stores._path(rest) for rest in ("/C:/run", "C:\\run", "/run", "//host/run")]
    assert paths == ["C:/run", "C:\\run", "/run", "//host/run"]
    assert stores._path("/C:/run") == "/C:/run"


@pytest.mark.parametrize(
    "address",
    [
        "tcp",
        "localhost:29500",
        "tcp://",
        "tcp://host",
        "tcp://:29500",
        "tcp://host:99999",
        "tcp://host:port",
        "tcp://host:1/path",
        "http://host:29500",
        "env://",
        "file://",
        "dir://",
        "/tmp/store",
    ],
)
def test_another_form_is_refused_with_the_three_that_there_are(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(address, rank=0, world_size=2)
    assert repr(address) in str(caught.value)
    for form in ("tcp://host:port", "file://path", "dir://path"):
        assert form in str(caught.value)


def test_port_0_is_refused_where_others_would_have_to_know_it() -> None:
    for rank in (0, 1):
        with pytest.raises(UsageError, match="the other ranks could not know"):
            open_store("tcp://localhost:0", rank=rank, world_size=2)


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (-1, 2), (0, 0)])
def test_a_rank_outside_the_world_is_refused(rank: int, world_size: int) -> None:
    with pytest.raises(UsageError, match="rank must be in 0"):
        open_store("tcp://localhost:29500", rank=rank, world_size=world_size)


def test_torch_without_libuv_is_asked_again_without(tmp_path: Path) -> None:
    tried: list[bool] = []

    def connect(use_libuv: bool) -> c10d.Store:
        tried.append(use_libuv)
        if use_libuv:
            raise RuntimeError("use_libuv was requested but PyTorch was built without it")
        return c10d.FileStore(str(tmp_path / "file"), 1)

    assert isinstance(connecting.connected(connect, 10, where="here"), c10d.FileStore)
    assert tried == [True, False]


def test_other_errors_are_passed_on_with_the_place() -> None:
    def connect(use_libuv: bool) -> c10d.Store:
        raise RuntimeError("the reason\nand a stack")

    with pytest.raises(StoreError, match=r"^cannot open the store at here: the reason$"):
        connecting.connected(connect, 10, where="here")
