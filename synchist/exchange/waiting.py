"""Waiting for keys: quick at first, then ever more patient, and never deaf to bad news."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from .. import clock
from ..deadline import Deadline
from ..stores.guard import GuardedStore

__all__ = ["WARN_AFTER_SECONDS", "Reminder", "wait_until"]

WARN_AFTER_SECONDS = 60.0
"""When a waiting rank first warns of those that are late; then at doubling times."""

_log = logging.getLogger("synchist")

_SPIN_SECONDS: Final = 0.0005
_MOST_SECONDS: Final = 0.03
_PROBE_SECONDS: Final = 0.05
_SLICE_SECONDS: Final = 0.25


class Reminder:
    """Warns of late ranks during a long wait, more and more rarely.

    Args:
        late: asks the store, and names the late ranks; None when there are none.
        what: what is waited for.
    """

    def __init__(self, rank: int, what: str, late: Callable[[], str | None]) -> None:
        self._rank = rank
        self._what = what
        self._late = late
        self._due = WARN_AFTER_SECONDS

    def tick(self, waited: float) -> None:
        """To be called now and then with the seconds waited."""
        if waited < self._due:
            return
        self._due *= 2
        late = self._late()
        if late is not None:
            _log.warning(
                "rank %d has waited %.0f s for %s %s", self._rank, waited, late, self._what
            )


def wait_until(
    store: GuardedStore,
    ready: Callable[[], list[str]],
    probe: Callable[[float], None],
    deadline: Deadline,
) -> bool:
    """Wait until `ready()` returns no missing keys; False when the deadline passes first.

    Args:
        store: the store.
        ready: asks the store, and returns keys that are still missing.
        probe: called about 20 times a second with the seconds waited; raises to end the wait.
        deadline: by when.
    """
    began = clock.monotonic()
    next_probe = began + _PROBE_SECONDS
    while missing := ready():
        now = clock.monotonic()
        if deadline.expired:
            return False
        if now >= next_probe:
            probe(now - began)
            next_probe = clock.monotonic() + _PROBE_SECONDS
        waited = now - began
        if not store.can_check:
            store.wait(missing[:1], min(_SLICE_SECONDS, deadline.left()))
        elif waited > _SPIN_SECONDS:
            clock.sleep(min(_MOST_SECONDS, waited / 10, deadline.left()))
    return True
