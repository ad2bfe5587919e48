"""A store in this process's memory, for ranks that are threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import NoReturn

from ..deadline import Deadline
from .arguments import as_bytes, as_deadline, check_key, check_keys, not_there

__all__ = ["MemoryStore"]


class MemoryStore:
    """A store for threads of one process: tests, notebooks, ranks that are threads.

    Waiting threads sleep until a key is set; nothing polls. Values are copied to `bytes` when they
    are set. Safe to use from any number of threads at once.

    >>> store = MemoryStore()
    >>> store.set("a", b"1")
    >>> store.get("a")
    b'1'

    Notes:
        Another process cannot see it: pickling raises `TypeError`, and after a `fork` the child has
        a copy of its own that nobody else writes to. Use `DirectoryStore` or a `torch.distributed`
        store between processes.
    """

    def __init__(self, timeout: float = 300.0) -> None:
        """`timeout`: how many seconds `get` and `multi_get` wait for a key."""
        as_deadline(timeout)
        self.timeout = timeout
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def set(self, key: str, value: bytes | bytearray | memoryview, /) -> None:
        """Put `value` under `key` and wake the threads that wait. Does not block.

        Raises:
            TypeError: `key` is not a `str` or `value` not bytes.
        """
        check_key(key)
        data = as_bytes(value)
        with self._lock:
            self._values[key] = data
            self._changed.notify_all()

    def get(self, key: str, /) -> bytes:
        """The value under `key`; blocks until it is there.

        Raises:
            TimeoutError: it was not there after `timeout` seconds.
        """
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str], /) -> list[bytes]:
        """The values of all keys, in order; blocks until all are there at once.

        Raises:
            TimeoutError: some were not there after `timeout` seconds; the message names them.
        """
        check_keys(keys)
        with self._lock:
            self._await(keys, as_deadline(self.timeout))
            return [self._values[key] for key in keys]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None, /) -> None:
        """Block until every key is there at once.

        Raises:
            TimeoutError: some were not there after `timeout` (the store's own timeout when None);
                the message names them.
        """
        check_keys(keys)
        with self._lock:
            self._await(keys, as_deadline(self.timeout if timeout is None else timeout))

    def check(self, keys: Sequence[str], /) -> bool:
        """Whether every key is there now. Does not block."""
        check_keys(keys)
        with self._lock:
            return all(key in self._values for key in keys)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes, /) -> bytes:
        """Put `desired` if the key holds `expected`, or is absent and `expected` is empty.

        Does not block. Gives the value that is there afterwards, or `expected` where there is none.
        """
        check_key(key)
        old, new = map(_text_or_bytes, (expected, desired))
        with self._lock:
            found = self._values.get(key)
            if found == old or (found is None and not old):
                found = self._values[key] = new
                self._changed.notify_all()
            return old if found is None else found

    def delete_key(self, key: str, /) -> bool:
        """Remove `key`; True when it was there. Does not block."""
        check_key(key)
        with self._lock:
            return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How many keys the store holds. Does not block."""
        with self._lock:
            return len(self._values)

    def _await(self, keys: Sequence[str], deadline: Deadline) -> None:
        """Wait, with the lock held, until all keys are there."""
        while missing := [key for key in keys if key not in self._values]:
            if deadline.expired:
                raise not_there(missing, deadline)
            self._changed.wait(deadline.left())

    def __repr__(self) -> str:
        return f"<MemoryStore with {self.num_keys()} keys>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a MemoryStore cannot be pickled or copied: it lives in the memory of one process; "
            "between processes use a DirectoryStore or a torch.distributed store"
        )


def _text_or_bytes(value: str | bytes) -> bytes:
    """As torch's stores have it, whose `compare_set` takes both."""
    return value.encode() if isinstance(value, str) else as_bytes(value)
