"""One deadline for everything that happens inside one call."""

from __future__ import annotations

import math

from . import clock

__all__ = ["Deadline"]


class Deadline:
    """A moment on the monotonic clock.

    One object is handed through a whole call (device transfers, meeting, chunks), so that its parts
    share one budget instead of having one each. Safe to read from several threads.
    """

    __slots__ = ("end", "seconds")

    def __init__(self, seconds: float) -> None:
        """`seconds` from now; 0 has passed at once, `math.inf` never passes."""
        if not seconds >= 0:
            raise ValueError(f"a timeout must be 0 or more seconds, got {seconds!r}")
        self.seconds = float(seconds)
        self.end = clock.monotonic() + self.seconds

    def left(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.end - clock.monotonic())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return not math.isinf(self.end) and clock.monotonic() >= self.end
