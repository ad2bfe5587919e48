"""The kit on raw torch.distributed stores; where they break a rule, the reason says how we cope.

A torch store is handed to a history as it stands, so these are the stores behind most histories.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
import torch.distributed as dist

from synchist import Store
from synchist.testing import BrokenPromiseError, StoreTests
from synchist_torch import open_store

PATIENCE = timedelta(seconds=30)


class TcpTests(StoreTests):
    """One server for all tests of a class, and connections that are used again.

    Where no name server answers, torch now and then takes five seconds to connect.
    """

    use_libuv: ClassVar[bool]
    host: ClassVar[dist.TCPStore]
    pool: ClassVar[list[Store]]

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[None]:
        cls.pool = []
        cls.host = cls.connect(0, is_master=True)
        yield
        del cls.host, cls.pool

    @pytest.fixture
    def backend(self, server: None) -> Any:
        self.unused = list(self.pool)

    @classmethod
    def connect(cls, port: int, is_master: bool = False) -> dist.TCPStore:
        return dist.TCPStore(
            "127.0.0.1",
            port,
            is_master=is_master,
            wait_for_workers=False,
            timeout=PATIENCE,
            use_libuv=cls.use_libuv,
        )

    def open_store(self) -> Store:
        if not self.unused and len(self.pool) < 10:
            self.unused.append(cast(Store, self.connect(self.host.port)))
            self.pool.extend(self.unused)
        if not self.unused:
            self.unused = list(self.pool)
        return self.unused.pop()

    def opener(self) -> Callable[[], Store]:
        return functools.partial(
            open_store, f"tcp://127.0.0.1:{self.host.port}", rank=1, world_size=2
        )


class TestTcpStoreWithLibuv(TcpTests):
    use_libuv = True
    largest_value = 8_000_000

    @pytest.mark.xfail(
        strict=True,
        raises=BrokenPromiseError,
        reason="a value above 8 MiB drops the connection; a history cuts segments into 4 MiB",
    )
    def test_10_mb_values_come_back_whole(self) -> None:
        self.unused.clear()
        handle, key = self.handle(), self.key("large")
        self.pool.remove(handle.store)
        handle.set(key, bytes(10_000_000))
        handle.get(key)


class TestTcpStoreLegacy(TcpTests):
    use_libuv = False
    examples = 3  # a call takes up to 40 ms, the time of a delayed TCP acknowledgement


class TestFileStore(StoreTests):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Any:
        self.path = str(tmp_path / "store")

    def open_store(self) -> Store:
        store = dist.FileStore(self.path, 2)
        store.set_timeout(PATIENCE)
        return cast(Store, store)

    def opener(self) -> Callable[[], Store]:
        return functools.partial(open_store, f"file://{self.path}", rank=1, world_size=2)

    @pytest.mark.xfail(
        strict=True,
        raises=BrokenPromiseError,
        reason="delete_key is always True; a history does not look at what it gives",
    )
    def test_delete_of_an_absent_key_gives_false(self) -> None:
        super().test_delete_of_an_absent_key_gives_false()


class TestHashStore(StoreTests):
    """Its handles are one object, as threads share it."""

    @pytest.fixture
    def backend(self) -> Any:
        self.store = dist.HashStore()
        self.store.set_timeout(PATIENCE)

    def open_store(self) -> Store:
        return cast(Store, self.store)


class TestPrefixStore(TestHashStore):
    """What a process group hands out is one: a prefix before every key of another store."""

    def open_store(self) -> Store:
        return cast(Store, dist.PrefixStore("prefix", self.store))
