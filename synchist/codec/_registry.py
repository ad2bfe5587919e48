"""User types: registering them, and looking them up while encoding and decoding."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from ..errors import SynchistError, UsageError
from . import _wire
from ._encode import Refusal, Writer
from ._fields import functions_for
from ._libraries import knows
from ._opaque import Opaque
from ._scalars import pack_str
from ._tables import COMPOSITES, DECODERS, LEAVES, CompositeEncoder

if TYPE_CHECKING:
    from ._reader import Reader

__all__ = ["DEFAULT", "Registry", "register"]

T = TypeVar("T")


@attrs.frozen
class _Entry:
    """One registered type; `given` are the functions as they were passed to `register`."""

    kind: type
    name: str
    encode: Callable[[Any], object]
    decode: Callable[[Any], object]
    given: tuple[object, object]


class Registry:
    """User types that can be stored, by name.

    `encode` and `decode` use the default registry unless they are given another. A registry starts
    empty; the built-in types need no registration and cannot be registered. Registering is
    thread-safe, and may go on while other threads encode and decode.

    >>> from fractions import Fraction
    >>> from synchist.codec import decode, encode
    >>> class Ratio(Fraction): ...
    >>> registry = Registry()
    >>> registry.register(Ratio, "docs.Ratio/1", Fraction, Ratio)
    >>> decode(encode([Ratio(1, 2)], registry=registry), registry=registry)
    [Ratio(1, 2)]
    >>> decode(encode(Ratio(1, 2), registry=registry))
    <Opaque docs.Ratio/1, 20 bytes>
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_type: dict[type, _Entry] = {}
        self._by_name: dict[str, _Entry] = {}

    def register(
        self,
        type: type[T],
        name: str,
        encode: Callable[[T], object] | None = None,
        decode: Callable[[Any], T] | None = None,
    ) -> None:
        """Makes instances of exactly `type` (not of its subclasses) storable.

        The name is what gets stored, so it has to stay the same for as long as data with it is to
        be read. Put a version into it ("myproject.Setup/1"), and register a new name when the
        stored form changes.

        Args:
            type: the class.
            name: 1 to 255 characters, for this class alone.
            encode: turns an instance into a value that can be stored. It must give equal bytes
                for equal instances on every process. It may be left out, together with `decode`,
                for an Enum (stored by member name; a Flag by value), a dataclass, an attrs class
                or a namedtuple (stored by their fields, and rebuilt without calling `__init__`).
            decode: turns what `encode` returned, read back, into an instance. It gets untrusted
                data: an exception it raises is turned into `CorruptDataError`.

        Raises:
            UsageError: the type is built in, the type or the name is already taken, or the
                functions are missing for a class that needs them. Registering the very same
                again does nothing, and a class that was defined anew, as when a notebook's cell
                is run again, takes the place of the old one.
        """
        if not isinstance(type, _type):
            raise UsageError(f"register() takes a class, got {type!r}")
        _check_name(name)
        if (encode is None) != (decode is None):
            raise UsageError("register() takes encode and decode together, or neither")
        given = (encode, decode)
        if encode is None or decode is None:
            encode, decode = functions_for(type)
        if knows(type):
            raise UsageError(f"{_name_of(type)} is a built-in type and cannot be registered")
        with self._lock:
            old = self._by_type.get(type)
            other = self._by_name.get(name)
            if other is not None and _redefined(other.kind, type):
                del self._by_type[other.kind]
                other = None
            if old is not None and old is other and old.given == given:
                return
            if old is not None:
                raise UsageError(f"{_name_of(type)} is already registered, as {old.name!r}")
            if other is not None:
                raise UsageError(
                    f"the name {name!r} is already registered, for {_name_of(other.kind)}"
                )
            entry = _Entry(type, name, encode, decode, given)
            self._by_type[type] = entry
            self._by_name[name] = entry

    def unregister(self, name: str) -> None:
        """Forgets a name and its type; values stored under it are then read as `Opaque`.

        Raises:
            KeyError: the name is not registered.
        """
        with self._lock:
            entry = self._by_name.pop(name)
            del self._by_type[entry.kind]

    def copy(self) -> Registry:
        """A new registry with the same types."""
        new = Registry()
        with self._lock:
            new._by_type.update(self._by_type)
            new._by_name.update(self._by_name)
        return new

    def __repr__(self) -> str:
        return f"<Registry of {sorted(self._by_name)}>"

    def composite(self, value: Any) -> CompositeEncoder:
        """The encoder of a value whose type is neither a leaf nor a known composite."""
        kind = type(value)
        if kind in self._by_type:
            return _write_registered
        if knows(kind):
            return COMPOSITES.get(kind) or _write_leaf
        raise Refusal(_advice(value))

    def encoder(self, kind: type) -> tuple[str, Callable[[Any], object]]:
        """The name and the encode function of a registered type."""
        entry = self._by_type[kind]
        return entry.name, entry.encode

    def decoder(self, name: str) -> Callable[[Any], object] | None:
        """The decode function registered for a name."""
        entry = self._by_name.get(name)
        return None if entry is None else entry.decode


DEFAULT: Final = Registry()


def register(
    type: type[T],
    name: str,
    encode: Callable[[T], object] | None = None,
    decode: Callable[[Any], T] | None = None,
) -> None:
    """Registers a class in the default registry; see `Registry.register`."""
    DEFAULT.register(type, name, encode, decode)


_type = type  # `register` has a parameter of that name


def _write_registered(writer: Writer, value: Any, depth: int) -> None:
    writer.enter(depth)
    name, encode = writer.registry.encoder(type(value))
    try:
        stored = encode(value)
    except SynchistError as error:
        raise Refusal(f"the encoder of {name!r} failed: {error}") from error
    except Exception as error:
        raise Refusal(f"the encoder of {name!r} raised {error!r}") from error
    mark = writer.open_ext()
    writer.parts.append(b"\x92" + pack_str(name))
    try:
        writer.write(stored, depth + 1)
    except Refusal as refusal:
        refusal.inside(f"<{name}>", value)
        raise
    writer.close_ext(mark, _wire.REGISTERED)


def _write_leaf(writer: Writer, value: Any, depth: int) -> None:
    writer.parts.append(LEAVES[type(value)](value))


def _read_registered(reader: Reader, end: int, depth: int) -> object:
    start = reader.pos
    reader.enter(depth)
    if reader.array_header() != 2:
        raise reader.corrupt("a registered value is not a pair", start)
    name = reader.text()
    decode = reader.registry.decoder(name)
    if decode is None:
        reader.pos = start
        return Opaque(_wire.REGISTERED, reader.raw(end), name)
    stored = reader.item(depth + 1)
    try:
        return decode(stored)
    except MemoryError:
        raise
    except Exception as error:
        raise reader.corrupt(f"the decoder of {name!r} raised {error!r}", start) from error


DECODERS[_wire.REGISTERED] = _read_registered


def _check_name(name: str) -> None:
    if type(name) is not str or not 1 <= len(name) <= 255:
        raise UsageError(f"the name of a type is a str of 1 to 255 characters, got {name!r}")
    if not name.isprintable():
        raise UsageError(f"the name of a type must be printable, got {name!r}")


def _redefined(old: type, new: type) -> bool:
    place = (new.__module__, new.__qualname__)
    return old is not new and place == (old.__module__, old.__qualname__) and "<" not in place[1]


def _name_of(kind: type) -> str:
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _advice(value: object) -> str:
    kind = type(value)
    for base in kind.__mro__[1:-1]:
        if knows(base):
            return (
                f"{_name_of(kind)} is a subclass of {_name_of(base)} and would come back as "
                f"another type; convert it to {_name_of(base)}, or register the class with "
                "synchist.codec.register"
            )
    return (
        f"a value of type {_name_of(kind)} cannot be stored; convert it to one of the supported "
        "types, or register the class with synchist.codec.register"
    )
