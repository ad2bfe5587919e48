"""The one place where a store's exceptions become ours, and its answers are checked."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta
from typing import Any, Final

from ..errors import StoreError, SynchistError, UsageError

__all__ = ["GuardedStore"]

_PROBE_SECONDS: Final = 0.001


class GuardedStore:
    """A store whose every failure is a `StoreError`. Use from one thread at a time."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._kind = type(store).__name__
        self.can_check = callable(getattr(store, "check", None))
        self._multi_get = getattr(store, "multi_get", None)

    def set(self, key: str, value: bytes) -> None:
        """Put a value. It need not have arrived when this returns."""
        try:
            self._store.set(key, value)
        except Exception as error:
            raise self._failed("set", key, error) from error

    def get(self, key: str) -> bytes:
        """The value of a key that is known to be there."""
        try:
            return self._bytes(key, self._store.get(key))
        except SynchistError:
            raise
        except Exception as error:
            raise self._failed("get", key, error) from error

    def get_all(self, keys: list[str]) -> list[bytes]:
        """The values of keys that are known to be there."""
        if self._multi_get is None or len(keys) < 2:
            return [self.get(key) for key in keys]
        try:
            found = self._multi_get(keys)
        except NotImplementedError:
            self._multi_get = None
            return self.get_all(keys)
        except Exception as error:
            raise self._failed("multi_get", keys[0], error) from error
        if len(found) != len(keys):
            raise StoreError(f"{self._kind} answered {len(found)} of {len(keys)} keys")
        return [self._bytes(key, value) for key, value in zip(keys, found, strict=True)]

    def there(self, keys: list[str]) -> bool:
        """Whether all keys are there now."""
        if self.can_check:
            try:
                return bool(self._store.check(keys))
            except NotImplementedError:
                self.can_check = False
            except Exception as error:
                raise self._failed("check", keys[0], error) from error
        return self.wait(keys, _PROBE_SECONDS)

    def wait(self, keys: list[str], seconds: float) -> bool:
        """Whether all keys came within `seconds` (some stores round up to whole ones)."""
        began = time.monotonic()
        try:
            self._store.wait(keys, timedelta(seconds=max(seconds, _PROBE_SECONDS)))
        except Exception as error:
            waited = time.monotonic() - began
            if _is_timeout(error) and waited >= 0.9 * seconds:
                return False
            raise self._failed("wait", keys[0], error) from error
        return True

    def delete(self, key: str) -> None:
        """Remove a key, if the store can. Never raises: what is left over does no harm."""
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


def _is_timeout(error: Exception) -> bool:
    """Torch's stores raise DistStoreError, a bare RuntimeError or others, with these words."""
    if isinstance(error, TimeoutError):
        return True
    text = str(error).lower()
    return "timeout" in text or "timed out" in text
