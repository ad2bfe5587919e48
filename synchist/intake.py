"""Intake: names and values are checked, and copied as they are at this moment.

What cannot be stored exactly is refused here, with the place where it was to be recorded, and
before anything of the call was recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from .codec import encode
from .errors import TooLargeError, UnsupportedTypeError, UsageError
from .model.deferred import Tray
from .model.values import Coded

__all__ = [
    "MAX_VALUE_BYTES",
    "UNSET",
    "Intake",
    "Place",
    "Values",
    "as_values",
    "coded_weight",
    "joined",
]

MAX_VALUE_BYTES: Final = 1 << 30
"""Largest single value that ranks may share, in encoded bytes."""

UNSET: Any = object()
"""Stands for an argument that was not given."""

_PLAIN: Final = frozenset({float, int, bool, str, type(None)})

Values = Mapping[str, Any]


class Place(NamedTuple):
    """Where something is recorded; None for what is not in an epoch or in a batch."""

    rank: int
    epoch: int | None = None
    batch: int | None = None

    def __str__(self) -> str:
        places = [f"rank {self.rank}"]
        if self.epoch is not None:
            places.append(f"epoch {self.epoch}")
        if self.batch is not None:
            places.append(f"batch {self.batch}")
        return f"({', '.join(places)})"


class Intake:
    """Checks and copies what one rank records. Not thread-safe.

    Attributes:
        names: batch names that have been checked.
        mixed: batch names that have had values other than floats.
        tray: tensors that are still on their device.
        shared: whether other ranks will receive what is recorded, so that its size is limited.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.mixed: set[str] = set()
        self.tray = Tray()
        self.shared = False

    def forget(self) -> None:
        """Wait no more for tensors that nobody needs."""
        self.tray = Tray()

    def take(self, values: Values, place: Place) -> dict[str, Any]:
        """The values by name: Python scalars, `Coded` or `Deferred`.

        Raises:
            UnsupportedTypeError: a value cannot be stored exactly.
            TooLargeError: a value is larger than ranks may share.
            UsageError: a name is not allowed.
        """
        found: dict[str, Any] = {}
        for name, value in values.items():
            if not isinstance(name, str):
                raise UsageError(
                    f"a name must be a string, got {name!r} {place}; record it as a value, or use "
                    "str() on it"
                )
            if name == "batches":
                raise UsageError(
                    "the name 'batches' is taken: it is where h[epoch, 'batches'] finds the "
                    "batches; record under another name"
                )
            if type(name) is not str:
                name = str.__str__(name)
            if place.batch is not None:
                self.names.add(name)
                if type(value) is not float:
                    self.mixed.add(name)
            if type(value) not in _PLAIN:
                value = self._copy(name, value, place)
            elif type(value) is str:
                self._check_size(name, len(value), place)
            found[name] = value
        return found

    def _copy(self, name: str, value: Any, place: Place) -> Any:
        try:
            raw = self.tray.capture(value)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(
                f"cannot record {name!r} {place}: {error}", path=error.path
            ) from error
        if type(raw) is Coded:
            self._check_size(name, len(raw.data), place)
        elif raw.snap is not None:
            self._check_size(name, raw.snap.nbytes, place)
        return raw

    def _check_size(self, name: str, size: int, place: Place) -> None:
        if self.shared and size > MAX_VALUE_BYTES:
            raise TooLargeError(
                f"cannot record {name!r} {place}: {size:,} bytes; ranks share at most "
                f"{MAX_VALUE_BYTES:,} bytes a value. Save it to a file and record its path"
            )


def coded_weight(weight: Any, name: str) -> bytes | None:
    """A checked weight in the codec's bytes; None for none."""
    if weight is None:
        return None
    of_numpy = type(weight).__module__ == "numpy" and hasattr(weight, "item")
    number = weight.item() if of_numpy else weight
    if type(number) not in (int, float) or not 0 <= number < float("inf"):
        raise UsageError(
            f"record({name!r}, ..., weight={weight!r}): a weight is a finite number, 0 or more "
            "(int, float or a numpy scalar)"
        )
    return encode(number)


def joined(values: Values | None, named: dict[str, Any]) -> dict[str, Any]:
    """A mapping and keyword arguments as one dict."""
    if values is None:
        return named
    if not isinstance(values, Mapping):
        raise UsageError(f"expected a mapping of names to values, got {type(values).__name__}")
    return {**values, **named}


def as_values(method: str, name: Any, value: Any) -> Values:
    """What `method(name, value)` or `method(mapping)` was called with."""
    if value is not UNSET:
        return {name: value} if isinstance(name, str) else _bad_name(method, name)
    if isinstance(name, Mapping):
        return name
    if isinstance(name, str):
        raise UsageError(f"{method}({name!r}) without a value: call {method}({name!r}, value)")
    return _bad_name(method, name)


def _bad_name(method: str, name: Any) -> Values:
    raise UsageError(
        f"{method}: a name must be a string, got {name!r} ({type(name).__name__}); "
        f"call {method}('name', value) or {method}({{'name': value}})"
    )
