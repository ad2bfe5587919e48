"""Every error synchist raises, and its one warning category.

Each error derives from `SynchistError` and from a builtin that callers would catch anyway, and
carries the facts as attributes, so that a program need not parse the message. All of them can be
pickled: they cross process boundaries in `synchist_torch.launch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "CorruptDataError",
    "DivergenceError",
    "NotSyncedError",
    "RankFailedError",
    "StoreError",
    "SyncTimeoutError",
    "SynchistError",
    "SynchistWarning",
    "TooLargeError",
    "UnsupportedTypeError",
    "UsageError",
]


class SynchistError(Exception):
    """Base of every error that synchist raises on purpose."""


class SynchistWarning(UserWarning):
    """Something that deserves a look but does not stop the run."""


class NotSyncedError(SynchistError, RuntimeError):
    """A read that this rank's own unsynced records would change.

    Not a `KeyError`, because callers (skorch's scorers among them) take a `KeyError` to mean "was
    never recorded" and go on in silence.
    """


class UsageError(SynchistError, ValueError):
    """A call out of order or an argument that makes no sense; the message says what to do."""


class UnsupportedTypeError(SynchistError, TypeError):
    """A value that cannot be stored exactly.

    Attributes:
        path: where inside the recorded value the trouble is, such as `['a'][0]` ("" is the value
            itself).
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class CorruptDataError(SynchistError, ValueError):
    """Bytes that synchist did not write, or that were damaged since.

    Attributes:
        offset: position of the trouble in the input, in bytes, or None where it is not known.
        path: the file, or None where the bytes came from memory or a store.
    """

    def __init__(self, message: str, *, offset: int | None = None, path: str | None = None) -> None:
        super().__init__(message)
        self.offset = offset
        self.path = path


class TooLargeError(SynchistError, ValueError):
    """A value above a documented limit; the message names the limit."""


class DivergenceError(SynchistError, ValueError):
    """Ranks contradict each other; every rank that takes part raises it.

    Attributes:
        rank: the rank that differs from rank 0, where there is one.
        round: the round (1 is the first `sync()` of this meeting), or None during a meeting.
        reason: what differs.
    """

    def __init__(
        self,
        message: str,
        *,
        rank: int | None = None,
        round: int | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.rank = rank
        self.round = round
        self.reason = message if reason is None else reason


class SyncTimeoutError(SynchistError, TimeoutError):
    """The deadline passed while other ranks were missing. The call may be repeated.

    Attributes:
        missing: the ranks that had not come, in ascending order.
        round: the round that was waited for (1 is the first `sync()` of this meeting), or None
            while the ranks had not met.
        last_seen: for every missing rank, where it was last seen (text), or None for never.
    """

    def __init__(
        self,
        message: str,
        *,
        missing: Iterable[int] = (),
        round: int | None = None,
        last_seen: Mapping[int, str | None] | None = None,
    ) -> None:
        super().__init__(message)
        self.missing: list[int] = sorted(missing)
        self.round = round
        self.last_seen: dict[int, str | None] = dict(last_seen or {})


class RankFailedError(SynchistError, RuntimeError):
    """Another rank gave up or left, so this call cannot complete.

    Attributes:
        rank: the rank that failed or left, or None where it is not known.
        reason: what that rank gave as the reason.
        round: the round in which this rank learned of it, or None outside a round.
    """

    def __init__(
        self,
        message: str,
        *,
        rank: int | None = None,
        reason: str | None = None,
        round: int | None = None,
    ) -> None:
        super().__init__(message)
        self.rank = rank
        self.reason = reason
        self.round = round


class StoreError(SynchistError, ConnectionError):
    """The store failed, cannot be reached, or stopped answering."""


def _reduce(self: SynchistError) -> tuple[Any, ...]:
    return type(self), (str(self),), dict(self.__dict__)


# One way for all of them: OSError's own pickling (TimeoutError and ConnectionError have it)
# rebuilds from errno-shaped arguments and would lose the attributes.
SynchistError.__reduce__ = _reduce  # type: ignore[method-assign,assignment]
