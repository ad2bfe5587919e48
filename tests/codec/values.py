"""Hypothesis strategies for everything the codec stores that needs no library: one per type.

`PLAIN` has the strategy of each type by name, `HASHABLE` those that can be keys. `values` builds
containers of them, and of further leaves.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import pathlib
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import attrs
from hypothesis import strategies as st

from synchist.codec import Registry

__all__ = ["HASHABLE", "PLAIN", "REGISTERED", "containers", "hashables", "registry", "values"]

Strategy = st.SearchStrategy[Any]


def _near_powers(exponent: int, sign: int, offset: int) -> int:
    return sign * (1 << exponent) + offset


def _double(bits: bytes) -> float:
    number: float = struct.unpack(">d", bits)[0]
    return number


def _with_fold(value: Any, zone: dt.tzinfo | None, fold: int) -> Any:
    return value.replace(tzinfo=zone, fold=fold)


ints = st.integers() | st.builds(
    _near_powers, st.integers(0, 300), st.sampled_from([-1, 1]), st.integers(-2, 2)
)
floats = st.floats() | st.binary(min_size=8, max_size=8).map(_double)
complexes = st.builds(complex, floats, floats)
any_character = st.characters(exclude_categories=())  # surrogates as well
texts = st.text() | st.text(any_character) | st.integers(0, 70).map(lambda n: "x" * n)
decimals = st.decimals() | st.sampled_from(
    [
        Decimal(text)
        for text in (
            "-0",
            "0E+3",
            "1E+5",
            "100000",
            "1E-400",
            "NaN123",
            "-NaN",
            "sNaN7",
            "-Infinity",
        )
    ]
)
offsets = st.timedeltas(
    min_value=dt.timedelta(hours=-23, minutes=-59), max_value=dt.timedelta(hours=23, minutes=59)
)
timezones = st.builds(dt.timezone, offsets) | st.builds(dt.timezone, offsets, st.text(max_size=5))
zones = st.none() | timezones | st.just(dt.UTC) | st.timezones()
folds = st.integers(0, 1)
small_ints = st.integers(-(2**70), 2**70)

PLAIN: dict[str, Strategy] = {
    "None": st.none(),
    "bool": st.booleans(),
    "int": ints,
    "float": floats,
    "complex": complexes,
    "str": texts,
    "bytes": st.binary() | st.integers(250, 260).map(bytes),
    "bytearray": st.binary().map(bytearray),
    "range": st.builds(range, small_ints, small_ints, small_ints.filter(bool)),
    "Decimal": decimals,
    "Fraction": st.builds(Fraction, ints, ints.filter(bool)),
    "date": st.dates(),
    "time": st.builds(_with_fold, st.times(), zones, folds),
    "datetime": st.builds(_with_fold, st.datetimes(), zones, folds),
    "timedelta": st.timedeltas(),
    "timezone": timezones,
    "ZoneInfo": st.timezones(),
    "UUID": st.builds(
        uuid.UUID,
        bytes=st.binary(min_size=16, max_size=16),
        is_safe=st.sampled_from(uuid.SafeUUID),
    ),
    "PurePosixPath": st.builds(pathlib.PurePosixPath, st.text(any_character)),
    "PureWindowsPath": st.builds(
        pathlib.PureWindowsPath, st.text("ab/\\.é ") | st.just("C:/Users/x")
    ).filter(lambda path: type(path)(str(path)) == path),  # those that do not are refused
    "Path": st.builds(pathlib.Path, st.text()),
}


class Colour(enum.Enum):
    RED = "r"
    GREEN = ("any", "value")


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: Any
    y: Any


def wrap(value: Any) -> tuple[Any]:
    return (value,)


@attrs.frozen
class Setup:
    rate: Any
    layers: Any
    _hidden: Any = 0


@attrs.define(slots=False, eq=False)
class Loose:
    """Has a field that `__init__` does not take, and a converter that must not run twice."""

    wrapped: Any = attrs.field(converter=wrap)
    late: Any = attrs.field(init=False, default=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    name: Any
    value: Any


class Labels(dict[Any, Any]):
    """A subclass of a built-in type, stored by functions."""


registry = Registry()
registry.register(Colour, "tests.Colour/1")
registry.register(Level, "tests.Level/1")
registry.register(Access, "tests.Access/1")
registry.register(Point, "tests.Point/1")
registry.register(Setup, "tests.Setup/1")
registry.register(Loose, "tests.Loose/1")
registry.register(Sample, "tests.Sample/1")
registry.register(Labels, "tests.Labels/1", dict, Labels)

plain = st.one_of(*PLAIN.values())
hashable_leaves = st.one_of(
    *(PLAIN[name] for name in PLAIN if name not in ("bytearray", "Decimal")),
    PLAIN["Decimal"].filter(lambda number: not number.is_snan()),
)


def _tuples(inner: Strategy) -> Strategy:
    return st.lists(inner, max_size=4).map(tuple) | st.frozensets(inner, max_size=4)


hashables = st.recursive(hashable_leaves, _tuples, max_leaves=6)
"""Values that can be keys."""

HASHABLE: dict[str, Strategy] = {
    "tuple of hashables": st.lists(hashables, max_size=4).map(tuple),
    "frozenset": st.frozensets(hashables, max_size=6),
}

REGISTERED: dict[str, Callable[[Strategy], Strategy]] = {
    "Enum": lambda inner: st.sampled_from(Colour),
    "IntEnum": lambda inner: st.sampled_from(Level),
    "Flag": lambda inner: st.integers(0, 3).map(Access),
    "namedtuple": lambda inner: st.builds(Point, inner, inner),
    "attrs": lambda inner: st.builds(Setup, inner, inner, inner),
    "attrs with converter": lambda inner: st.builds(Loose, inner),
    "dataclass": lambda inner: st.builds(Sample, inner, inner),
    "subclass of dict": lambda inner: st.dictionaries(texts, inner, max_size=3).map(Labels),
}
"""Strategies of registered types, given one for what is inside them; see `registry`."""


def containers(inner: Strategy) -> Strategy:
    """Containers of `inner`: every kind that the codec knows, and registered types."""
    return st.one_of(
        st.lists(inner, max_size=5),
        st.lists(floats, min_size=17, max_size=20),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(hashables, inner, max_size=4),
        st.dictionaries(ints, floats, min_size=17, max_size=20),
        st.sets(hashables, max_size=5),
        HASHABLE["frozenset"],
        *(strategy(inner) for strategy in REGISTERED.values()),
    )


def values(*leaves: Strategy) -> Strategy:
    """Any value, as deep as Hypothesis goes; `leaves` are added to those of this module."""
    return st.recursive(st.one_of(plain, *leaves), containers, max_leaves=8)
