"""What the stores of this package check about keys, values and timeouts, and how they say so."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import timedelta

from ..deadline import Deadline

__all__ = ["as_bytes", "as_deadline", "check_key", "check_keys", "not_there"]

_NAMED = 5  # keys spelled out in a message; more would bury the sentence


def check_key(key: str) -> None:
    """Raise `TypeError` unless `key` is a `str`."""
    if not isinstance(key, str):
        raise TypeError(f"a key must be a str, got {type(key).__name__}: {key!r}")


def check_keys(keys: Sequence[str]) -> None:
    """Raise `TypeError` unless `keys` is a sequence of `str`, and not a bare `str`."""
    if isinstance(keys, str):
        raise TypeError(f"keys must be a list of str, got the str {keys!r}")
    for key in keys:
        check_key(key)


def as_bytes(value: bytes | bytearray | memoryview) -> bytes:
    """`value` as `bytes` of its own; a `bytearray` or `memoryview` is copied."""
    if type(value) is bytes:
        return value
    try:
        # Through a memoryview, because bytes(3) is three zero bytes and not an error.
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError(f"a value must be bytes, got {type(value).__name__}") from None


def as_deadline(timeout: timedelta | float) -> Deadline:
    """The deadline for a timeout that is a `timedelta` or seconds; a negative one has passed."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    # Longer than this (centuries) the platform's own timed waits refuse.
    return Deadline(min(max(seconds, 0.0), threading.TIMEOUT_MAX))


def not_there(keys: Iterable[str], deadline: Deadline) -> TimeoutError:
    """The error for keys that had not come when `deadline` passed."""
    missing = list(keys)
    named = ", ".join(repr(key) for key in missing[:_NAMED])
    if len(missing) > _NAMED:
        named += f" and {len(missing) - _NAMED} more"
    plural = "key" if len(missing) == 1 else "keys"
    return TimeoutError(f"after {deadline.seconds:g} s the store has no {plural} {named}")
