"""A store that misbehaves as stores do, drawn from a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import attrs

from .. import clock

__all__ = ["Faults", "FaultyStore"]

_NONCE: Final = re.compile("[0-9a-f]{32}")

# As torch's stores say it, and as sockets do.
_BROKEN: Final[tuple[tuple[type[Exception], str], ...]] = (
    (RuntimeError, "Connection reset by peer"),
    (RuntimeError, "Broken pipe"),
    (RuntimeError, "failed to recv, got 0 bytes"),
    (RuntimeError, "Socket Timeout"),
    (ConnectionResetError, "[Errno 104] Connection reset by peer"),
    (OSError, "[Errno 116] Stale file handle"),
)


@attrs.frozen(kw_only=True)
class Faults:
    """How often each fault happens: chances per store call, from 0 to 1.

    Attributes:
        delay: the call takes up to `delay_seconds` more.
        delay_seconds: the longest delay.
        drop: the connection breaks, before or after the store did as it was told: the caller cannot
            know. A `set` that the store had not confirmed is lost with it.
        duplicate: a `set` or `delete_key` is carried out twice, with a pause in between.
        stale: a key reads as it was before, or as the key in its place did in an earlier attempt
            (names that differ only in a nonce).
        calls: how many calls of a handle anything goes wrong with; then the store is sound.
    """

    delay: float = 0.0
    delay_seconds: float = 0.5
    drop: float = 0.0
    duplicate: float = 0.0
    stale: float = 0.0
    calls: float = float("inf")


class FaultyStore:
    """Wraps any store and lets it fail, drawn from a seed. One for each rank.

    As with a TCPStore, `set` returns before the store has the value: it arrives with the next call
    on this handle, or never if the connection breaks or the process dies first.

    Args:
        store: the sound store below.
        seed: the same seed and the same calls give the same faults.
        faults: how often each fault happens.
        past: what was read before, by key; share one dict to serve what other handles read.
    """

    def __init__(
        self,
        store: Any,
        *,
        seed: int,
        faults: Faults,
        past: dict[str, list[bytes]] | None = None,
    ) -> None:
        self._store = store
        self._rng = random.Random(seed)
        self._faults = faults
        self._calls = 0
        self._on_the_way: tuple[str, bytes] | None = None
        self._past = {} if past is None else past

    def set(self, key: str, value: bytes, /) -> None:
        """Put a value, perhaps later, perhaps twice, perhaps never."""
        self._before()
        if self._chance(self._faults.duplicate):
            self._store.set(key, value)
            clock.sleep(self._rng.random() * 0.05)
            self._store.set(key, value)
        elif self._faults.drop and self._chance(0.3):
            self._on_the_way = (key, value)
        else:
            self._store.set(key, value)
        self._after()

    def get(self, key: str, /) -> bytes:
        """The value, or one that it had before."""
        self._before()
        value: bytes = self._store.get(key)
        versions = self._past.setdefault(_NONCE.sub("*", key), [])
        if not versions or versions[-1] != value:
            versions.append(value)
        self._after()
        if self._chance(self._faults.stale):
            return self._rng.choice(versions)
        return value

    def wait(self, keys: Sequence[str], timeout: timedelta, /) -> None:
        """Wait for keys."""
        self._before()
        self._store.wait(keys, timeout)
        self._after()

    def check(self, keys: Sequence[str], /) -> bool:
        """Whether all keys are there."""
        self._before()
        there = bool(self._store.check(keys))
        self._after()
        return there

    def delete_key(self, key: str, /) -> bool:
        """Remove a key, perhaps twice."""
        self._before()
        there = bool(self._store.delete_key(key))
        if self._chance(self._faults.duplicate):
            clock.sleep(self._rng.random() * 0.05)
            self._store.delete_key(key)
        self._after()
        return there

    def _before(self) -> None:
        self._calls += 1
        if self._chance(self._faults.delay):
            clock.sleep(self._rng.random() * self._faults.delay_seconds)
        if self._chance(self._faults.drop / 2):
            self._on_the_way = None
            self._break()
        self._deliver()

    def _after(self) -> None:
        if self._chance(self._faults.drop / 2):
            self._on_the_way = None
            self._break()

    def _deliver(self) -> None:
        if self._on_the_way is not None:
            key, value = self._on_the_way
            self._on_the_way = None
            self._store.set(key, value)

    def _break(self) -> None:
        kind, text = self._rng.choice(_BROKEN)
        raise kind(text)

    def _chance(self, probability: float) -> bool:
        if probability <= 0 or self._calls > self._faults.calls:
            return False
        return self._rng.random() < probability
