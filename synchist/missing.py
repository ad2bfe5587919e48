"""The mark for "was not recorded", which None cannot be: None can be recorded."""

from __future__ import annotations

import enum
from typing import Any, Final

__all__ = ["MISSING", "Missing"]


class Missing(enum.Enum):
    """The type of `MISSING`."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final[Any] = Missing.MISSING
"""Stands where a value would, had one been recorded. Compare with `is`."""
