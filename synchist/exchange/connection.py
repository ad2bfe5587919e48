"""A connection to the store that the rest of the program does not use."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Any

__all__ = ["own_connection"]

_log = logging.getLogger("synchist")
_lock = threading.Lock()
_clones: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def own_connection(store: Any) -> Any:
    """A clone of the store where it can be cloned, else the store itself.

    A torch store serialises the calls on one handle, so a call of ours would wait behind one of the
    program's. All histories on one store share the clone: they only make calls that return at once,
    and opening a connection is slow at times (a TCPStore looks up names every 25th time).
    """
    clone = getattr(store, "clone", None)
    if not callable(clone):
        return store
    with _lock:
        try:
            known = _clones.get(store)
            if known is None:
                known = _clones[store] = clone()
        except TypeError:  # not hashable, or without weak references
            return clone()
        except Exception as error:  # noqa: BLE001  (some of torch's stores cannot; share the handle)
            _log.debug("sharing the handle of %s: %s", type(store).__name__, error)
            return store
        return known
