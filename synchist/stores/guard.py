"""The one place where a store's exceptions become ours, and its answers are checked."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from .. import clock
from ..errors import StoreError, SynchistError, UsageError

__all__ = ["GuardedStore"]

_PROBE_SECONDS: Final = 0.001
_ABSENT: Final = "\0synchist: no such key"


class GuardedStore:
    """A store whose every failure is a `StoreError`. Use from one thread at a time.

    Args:
        store: the store.
        step: called before each call with the seconds that it may take; may raise instead.
    """

    def __init__(self, store: Any, step: Callable[[float], None] = lambda _: None) -> None:
        self._store = store
        self._step = step
        self._kind = type(store).__name__
        self.can_check = callable(getattr(store, "check", None))
        self._compare_set = getattr(store, "compare_set", None)
        self._multi_get = getattr(store, "multi_get", None)
        if _is_legacy(store):  # a multi_get takes 200 ms there, as long as 4000 gets
            self._multi_get = None

    def set(self, key: str, value: bytes) -> None:
        """Put a value. It need not have arrived when this returns."""
        self._step(0)
        try:
            self._store.set(key, value)
        except Exception as error:
            raise self._failed("set", key, error) from error

    def get(self, key: str) -> bytes:
        """The value of a key that is known to be there."""
        self._step(0)
        try:
            return self._bytes(key, self._store.get(key))
        except SynchistError:
            raise
        except Exception as error:
            raise self._failed("get", key, error) from error

    @property
    def reads_at_once(self) -> bool:
        """Whether `look` cannot block, even if the key is deleted at that very moment."""
        return self._compare_set is not None

    def look(self, key: str) -> bytes | None:
        """The value of a key, or None when it is not there now."""
        if self._compare_set is not None:
            # One round trip, where `check` and `get` take three on a TCPStore. It changes nothing:
            # what is not there is not put, and what is there is not what is expected.
            self._step(0)
            try:
                found = self._compare_set(key, _ABSENT, _ABSENT)
            except Exception as error:
                if not _is_unsupported(error):
                    raise self._failed("compare_set", key, error) from error
                self._compare_set = None
            else:
                value = self._bytes(key, found)
                return None if value == _ABSENT.encode() else value
        return self.get(key) if self.there([key]) else None

    def get_all(self, keys: list[str]) -> list[bytes]:
        """The values of keys that are known to be there."""
        if self._multi_get is None or len(keys) < 2:
            return [self.get(key) for key in keys]
        self._step(0)
        try:
            found = self._multi_get(keys)
        except Exception as error:
            if not _is_unsupported(error):
                raise self._failed("multi_get", keys[0], error) from error
            self._multi_get = None
            return self.get_all(keys)
        if len(found) != len(keys):
            raise StoreError(f"{self._kind} answered {len(found)} of {len(keys)} keys")
        return [self._bytes(key, value) for key, value in zip(keys, found, strict=True)]

    def there(self, keys: list[str]) -> bool:
        """Whether all keys are there now."""
        if self.can_check:
            self._step(0)
            try:
                return bool(self._store.check(keys))
            except Exception as error:
                if not _is_unsupported(error):
                    raise self._failed("check", keys[0], error) from error
                self.can_check = False
        return self.wait(keys, _PROBE_SECONDS)

    def wait(self, keys: list[str], seconds: float) -> bool:
        """Whether all keys came within `seconds` (some stores round up to whole ones)."""
        self._step(math.ceil(seconds))
        began = clock.monotonic()
        try:
            self._store.wait(keys, timedelta(seconds=max(seconds, _PROBE_SECONDS)))
        except Exception as error:
            waited = clock.monotonic() - began
            if _is_timeout(error) and waited >= 0.9 * seconds:
                return False
            raise self._failed("wait", keys[0], error) from error
        return True

    def delete(self, key: str) -> None:
        """Remove a key, if the store can. Never raises: what is left over does no harm."""
        self._step(0)
        with contextlib.suppress(Exception):
            self._store.delete_key(key)

    @staticmethod
    def _bytes(key: str, value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, (bytearray, memoryview)):
            return bytes(value)
        raise UsageError(
            f"the store gave {type(value).__name__} instead of bytes for the key {key!r}"
        )

    def _failed(self, operation: str, key: str, error: Exception) -> StoreError:
        return StoreError(
            f"{self._kind}.{operation} failed (key {key!r}): {type(error).__name__}: {error}"
        )


def _is_unsupported(error: Exception) -> bool:
    """Whether the store has the method by name only.

    A Python subclass of torch's Store inherits all of its methods, and those that it does not
    override raise a bare RuntimeError.
    """
    text = str(error).lower()
    return isinstance(error, NotImplementedError) or (
        type(error) is RuntimeError and ("pure virtual" in text or "not implemented" in text)
    )


def _is_legacy(store: Any) -> bool:
    """Whether this is a TCPStore without libuv, perhaps behind prefixes."""
    for _ in range(8):  # a stand-in that has every attribute must not keep us here
        store = getattr(store, "underlying_store", None) or store
    return getattr(store, "libuvBackend", True) is False


def _is_timeout(error: Exception) -> bool:
    """Torch's stores raise DistStoreError, a bare RuntimeError or others, with these words."""
    if isinstance(error, TimeoutError):
        return True
    text = str(error).lower()
    return "timeout" in text or "timed out" in text
