"""Writing JSON to a file, whole or not at all."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..file import replace_file

__all__ = ["to_json", "write_json"]


def to_json(value: Any) -> str:
    """JSON text of lists, tuples, dicts, strings, numbers, bools and None.

    JSON has no NaN and no infinities; they become the strings "NaN", "Infinity" and "-Infinity",
    as in the JSON format of protocol buffers.

    Raises:
        TypeError: a value of another type.

    >>> print(to_json([1.5, float("-inf")]))
    [
      1.5,
      "-Infinity"
    ]
    """
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON; at `path` there is either the whole of it or what was there before.

    Raises:
        OSError: the file cannot be written.
        TypeError: a value that JSON cannot hold.
    """
    text = to_json(value) + "\n"
    replace_file(path, lambda file: file.write(text.encode()))
