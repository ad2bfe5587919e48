"""What a launched process tells its launcher.

Each message is one byte for its kind and a pickle. It travels over a pipe that only the two of them
hold, so the pickle is as trusted as the function that was called.
"""

from __future__ import annotations

import pickle
import time
import traceback
from typing import NamedTuple

from synchist import RankFailedError

__all__ = ["FAILED", "RETURNED", "STARTED", "Failure"]

STARTED, RETURNED, FAILED = b"S", b"R", b"F"


class Failure(NamedTuple):
    """Why a rank did not return.

    Attributes:
        reason: the exception in one line; where there is none, what the rank did ("was killed").
        when: seconds since the epoch.
        traceback: text, or "" when there is none.
        blames: another rank, when this one only failed because that one had.
        pickled: the exception, or b"" when it cannot be pickled.
    """

    reason: str
    when: float
    traceback: str = ""
    blames: int | None = None
    pickled: bytes = b""

    @classmethod
    def of(cls, error: BaseException, rank: int) -> Failure:
        """What can be told in another process of `error`, which `rank` raised."""
        blames = error.rank if isinstance(error, RankFailedError) else None
        where = error.__traceback__
        while where is not None and where.tb_frame.f_globals["__package__"] == __package__:
            where = where.tb_next  # our own lines say nothing
        lines = traceback.format_exception(type(error), error, where)
        return cls(
            reason="".join(traceback.format_exception_only(error)).partition("\n")[0],
            when=time.time(),
            traceback="".join(lines).rstrip(),
            blames=None if blames == rank else blames,
            pickled=_pickled(error),
        )

    @property
    def exception(self) -> BaseException | None:
        """The exception itself, where it could be pickled and can be rebuilt here."""
        if not self.pickled:
            return None
        try:
            error = pickle.loads(self.pickled)  # noqa: S301  (from our own child)
        except Exception:  # noqa: BLE001  (rebuilding runs code of the exception)
            return None
        return error if isinstance(error, BaseException) else None


def _pickled(error: BaseException) -> bytes:
    try:
        return pickle.dumps(error)
    except Exception:  # noqa: BLE001  (pickling runs code of the exception)
        return b""
