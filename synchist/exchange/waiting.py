"""Waiting for keys: quick at first, then ever more patient, and never deaf to bad news."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ..deadline import Deadline
from ..stores.guard import GuardedStore
from .worker import Ticket

__all__ = ["wait_until"]

_SPIN_SECONDS: Final = 0.0005
_MOST_SECONDS: Final = 0.03
_PROBE_SECONDS: Final = 0.05
_SLICE_SECONDS: Final = 0.25


def wait_until(
    store: GuardedStore,
    ready: Callable[[], list[str]],
    probe: Callable[[float], None],
    deadline: Deadline,
    ticket: Ticket,
) -> bool:
    """Wait until `ready()` returns no missing keys; False when the deadline passes first.

    Args:
        store: the store.
        ready: asks the store, and returns keys that are still missing.
        probe: called about 20 times a second with the seconds waited; raises to end the wait.
        deadline: by when.
        ticket: the job this is part of.
    """
    began = time.monotonic()
    next_probe = began + _PROBE_SECONDS
    while missing := ready():
        ticket.check()
        now = time.monotonic()
        if deadline.expired:
            return False
        if now >= next_probe:
            probe(now - began)
            next_probe = time.monotonic() + _PROBE_SECONDS
        waited = now - began
        if not store.can_check:
            store.wait(missing[:1], min(_SLICE_SECONDS, deadline.left()))
        elif waited > _SPIN_SECONDS:
            time.sleep(min(_MOST_SECONDS, waited / 10, deadline.left()))
    return True
