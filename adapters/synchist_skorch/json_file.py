"""A history as skorch's JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from skorch.utils import open_file_like

from synchist import UnsupportedTypeError
from synchist_skorch.entries import BATCHES

__all__ = ["read_json", "write_json"]


def read_json(file: Any) -> Any:
    """What is in a file; see `write_json`."""
    with open_file_like(file, "r") as opened:
        return json.load(opened)


def write_json(epochs: Sequence[Any], file: Any) -> None:
    """Write the epochs; the file is opened only once they are known to fit into JSON.

    Args:
        epochs: dicts as skorch has them.
        file: a path, or an open text file, which is closed as skorch does it.

    Raises:
        UnsupportedTypeError: JSON cannot hold a value; the file is as it was.
    """
    try:
        text = json.dumps(epochs)
    except (TypeError, ValueError, RecursionError) as error:
        raise _named(epochs, error) from error
    with open_file_like(file, "w") as opened:
        opened.write(text)


def _named(epochs: Sequence[Any], error: Exception) -> UnsupportedTypeError:
    for place, value in _values(epochs):
        try:
            json.dumps(value)
        except (TypeError, ValueError, RecursionError) as cause:
            return UnsupportedTypeError(
                f"JSON cannot hold {place}: {cause}. Record a number, a string, or a list or dict "
                "of such; the file was not written"
            )
    return UnsupportedTypeError(f"JSON cannot hold this history: {error}; the file was not written")


def _values(epochs: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Every value, and where it is."""
    for index, epoch in enumerate(epochs):
        if not isinstance(epoch, dict):
            yield f"epoch {index}", epoch
            continue
        for name, value in epoch.items():
            if name != BATCHES or not isinstance(value, list):
                yield f"{name!r} of epoch {index}", {name: value}
                continue
            for batch, row in enumerate(value):
                for key, item in row.items():
                    yield f"{key!r} of epoch {index}, batch {batch}", {key: item}
