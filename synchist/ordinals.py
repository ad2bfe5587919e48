"""Which of several histories on one store a history is."""

from __future__ import annotations

import threading
import weakref
from typing import Any

__all__ = ["next_ordinal"]

_lock = threading.Lock()
_counts: weakref.WeakKeyDictionary[Any, dict[tuple[int, str], int]] = weakref.WeakKeyDictionary()


def next_ordinal(store: Any, rank: int, name: str) -> int:
    """0 for the first history of this rank and name on this store object, then 1, and so on.

    Ranks that are threads share one store object, so each counts its own. A store object that
    cannot be referenced weakly or hashed always gives 0: name the histories on such a store.
    """
    with _lock:
        try:
            counts = _counts.setdefault(store, {})
        except TypeError:
            return 0
        number = counts.get((rank, name), 0)
        counts[rank, name] = number + 1
        return number
