"""Classes that can be stored without functions of their own: by member name or by field.

An Enum is stored by the name of its member, a Flag by its value, everything else as a dict of its
fields. Instances are rebuilt without calling `__init__`: a converter or a validator has seen the
values already, and running it again could change them. The data is untrusted, so what is rebuilt
has exactly the fields of the class, but validators do not run; give `encode` and `decode` to
`register` where they should.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import attrs

from ..errors import UsageError

__all__ = ["functions_for"]


@attrs.frozen
class _Member:
    """Encodes and decodes the members of an Enum by name."""

    kind: type[enum.Enum]

    def encode(self, value: enum.Enum) -> object:
        return value.name

    def decode(self, stored: Any) -> enum.Enum:
        return self.kind[stored]


@attrs.frozen
class _FlagValue:
    """Encodes and decodes a Flag by value: a combination has no name of its own."""

    kind: type[enum.Flag]

    def encode(self, value: enum.Flag) -> object:
        return value.value

    def decode(self, stored: Any) -> enum.Flag:
        if type(stored) is not int:
            raise ValueError(f"the value of a flag is an int, not {type(stored).__name__}")
        return self.kind(stored)


@attrs.frozen
class _Fields:
    """Encodes and decodes an instance by its fields."""

    kind: Any
    names: tuple[str, ...]

    def encode(self, value: Any) -> object:
        fields = {}
        for name in self.names:
            try:
                fields[name] = getattr(value, name)
            except AttributeError:
                raise ValueError(f"the field {name!r} is not set") from None
        extra = [name for name in _state(value) if name not in fields]
        if extra:
            raise ValueError(
                f"the attribute {extra[0]!r} is no field and would be lost; register the class "
                "with encode and decode functions"
            )
        return fields

    def decode(self, stored: Any) -> object:
        if type(stored) is not dict or tuple(stored) != self.names:
            raise ValueError(
                f"the stored fields are not {', '.join(self.names)}; register a changed class "
                "under a new name"
            )
        value = self.kind.__new__(self.kind)
        for name in self.names:
            object.__setattr__(value, name, stored[name])
        return value


@attrs.frozen
class _NamedTuple:
    """Encodes and decodes a namedtuple by its fields."""

    kind: Any

    def encode(self, value: Any) -> object:
        if getattr(value, "__dict__", None):
            raise ValueError(
                f"the attribute {next(iter(vars(value)))!r} is no field and would be lost; "
                "register the class with encode and decode functions"
            )
        return dict(zip(self.kind._fields, value, strict=True))

    def decode(self, stored: Any) -> object:
        if type(stored) is not dict or tuple(stored) != self.kind._fields:
            raise ValueError(
                f"the stored fields are not {', '.join(self.kind._fields)}; register a changed "
                "class under a new name"
            )
        return tuple.__new__(self.kind, stored.values())


def functions_for(kind: Any) -> tuple[Callable[[Any], object], Callable[[Any], Any]]:
    """The encode and decode function for a class that needs none of its own.

    Raises:
        UsageError: it does need them.
    """
    by: _Member | _FlagValue | _Fields | _NamedTuple
    if issubclass(kind, enum.Flag):
        by = _FlagValue(kind)
    elif issubclass(kind, enum.Enum):
        by = _Member(kind)
    elif issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        by = _NamedTuple(kind)
    elif attrs.has(kind) and "__attrs_attrs__" in vars(kind):
        by = _by_field(kind, tuple(field.name for field in attrs.fields(kind)))
    elif "__dataclass_fields__" in vars(kind):
        by = _by_field(kind, tuple(field.name for field in dataclasses.fields(kind)))
    else:
        raise UsageError(
            f"{kind.__qualname__} is no Enum, dataclass, attrs class or namedtuple: give "
            "register() an encode and a decode function"
        )
    return by.encode, by.decode


def _by_field(kind: type, names: tuple[str, ...]) -> _Fields:
    # A base that is written in C, such as set or dict, has contents besides the fields.
    if any(not base.__flags__ & _HEAP_TYPE for base in kind.__mro__[1:-1]):
        raise UsageError(
            f"{kind.__qualname__} holds more than its fields: give register() an encode and a "
            "decode function"
        )
    return _Fields(kind, names)


_HEAP_TYPE = 1 << 9
"""The bit of `type.__flags__` that classes made by a class statement have."""


def _state(value: object) -> list[str]:
    """The names of everything that an instance holds."""
    names = list(getattr(value, "__dict__", ()))
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{base.__name__.lstrip('_')}{name}"
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                names.append(name)
    return names
