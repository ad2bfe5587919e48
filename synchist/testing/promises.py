"""What synchist promises its users, as far as a store can break it, and how a failure says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = [
    "COMPLETE",
    "EXACT",
    "FRESH",
    "PROMPT",
    "SAME",
    "TIDY",
    "BrokenPromiseError",
    "require",
    "within",
]

T = TypeVar("T")

COMPLETE: Final = "a sync that returns holds what every rank recorded"
EXACT: Final = "what goes in comes out, to the bit"
FRESH: Final = "what an earlier run left in the store is never taken for this run's"
PROMPT: Final = "a sync that cannot finish raises by its deadline; nothing hangs in silence"
SAME: Final = "after the same sync every rank has the same history"
TIDY: Final = "a run of any length keeps few keys in the store, and leaves none there at its end"


class BrokenPromiseError(AssertionError):
    """A store does something that a promise of synchist cannot stand on.

    Attributes:
        found: what the store did.
        promise: the promise, one sentence.
    """

    def __init__(self, found: str, promise: str) -> None:
        super().__init__(f"{found}. The promise that this store would break: {promise}.")
        self.found = found
        self.promise = promise

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.found, self.promise)


def require(condition: bool, found: str, promise: str) -> None:
    """Raise `BrokenPromiseError` unless `condition`."""
    __tracebackhide__ = True
    if not condition:
        raise BrokenPromiseError(found, promise)


def within(seconds: float, call: Callable[[], T], what: str, promise: str = PROMPT) -> T:
    """What `call` returns or raises; it breaks `promise` when it takes longer than `seconds`.

    It runs in a thread of its own, which is left behind when it hangs: a store that never answers
    fails one test, and holds up none.
    """
    __tracebackhide__ = True
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001  (raised again by the caller)
            errors.append(error)

    thread = threading.Thread(target=run, name=f"store tests: {what}", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise BrokenPromiseError(f"{what} did not return within {seconds:g} s", promise)
    return results[0]
