"""The store of docs/how-to/write-a-store.md, as it stands there, on a real server."""

from __future__ import annotations

import functools
import importlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from synchist import Store
from synchist.testing import StoreTests

redis = pytest.importorskip("redis", reason="the client is not installed: pip install redis")

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-store.md"
SERVER = shutil.which("redis-server")

pytestmark = pytest.mark.skipif(SERVER is None, reason="there is no redis-server here")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server with no port and nothing on disk: a socket in a folder whose path is short."""
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        socket = f"{folder}/s"
        server = subprocess.Popen(
            [str(SERVER), "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", ""],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            lines = iter(server.stdout.readline, "")
            started = any("ready to accept" in line.lower() for line in lines)
            assert started, "redis-server did not start"
            yield f"unix://{socket}"
        finally:
            server.terminate()
            server.communicate(timeout=30)


@pytest.fixture(scope="module")
def redis_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module of the page. Child processes find it too, as they get our path."""
    source = re.search(r"```python file=redis_store\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert source
    folder = tmp_path_factory.mktemp("page")
    (folder / "redis_store.py").write_text(source[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("redis_store")


class TestRedisStore(StoreTests):
    @pytest.fixture
    def backend(self, url: str, redis_store: Any) -> Iterator[None]:
        self.url = url
        self.new = redis_store.RedisStore
        self.raw = redis.Redis.from_url(url)
        yield
        assert self.raw.keys("*") == [], "the kit leaves nothing behind"
        self.raw.close()

    def open_store(self) -> Store:
        store: Store = self.new(self.url, timeout=30)
        return store

    def opener(self) -> Callable[[], Store]:
        return functools.partial(self.new, self.url)

    def raw_get(self, key: str) -> bytes:
        value: bytes = self.raw.get(f"synchist:{key}")
        return value

    def raw_set(self, key: str, value: bytes) -> None:
        self.raw.set(f"synchist:{key}", value)
