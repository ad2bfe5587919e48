"""Types of the standard library: numbers, dates and times, UUIDs and paths."""

from __future__ import annotations

import datetime as dt
import pathlib
import re
import uuid
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from . import _wire
from ._encode import Refusal, Writer
from ._limits import MAX_DEPTH, MAX_RATIO_BYTES, MAX_ZONES
from ._opaque import Opaque
from ._scalars import pack_int, pack_str
from ._tables import COMPOSITES, DECODERS, LEAVES

if TYPE_CHECKING:
    from ._reader import Reader

_RATIO_BITS: Final = 8 * MAX_RATIO_BYTES
_ZONE_KEY: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")


def _ints(*values: int) -> bytes:
    return b"".join(map(pack_int, values))


# Numbers


def _decimal(value: Decimal) -> bytes:
    # The letter for the exponent is a setting of the decimal context; in the data it is E.
    return _wire.ext(_wire.DECIMAL, str(value).replace("e", "E").encode("ascii"))


def _read_decimal(reader: Reader, end: int, depth: int) -> Decimal:
    text = reader.raw(end).decode("ascii")
    if "_" in text or text != text.strip():
        raise ValueError(f"{text!r:.40} is not how a Decimal is written")
    return Decimal(text)


def _fraction(writer: Writer, value: Fraction, depth: int) -> None:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _RATIO_BITS:
        raise Refusal(
            f"the numerator or denominator of a Fraction has more than {MAX_RATIO_BYTES} bytes; "
            "store the two as ints"
        )
    payload = b"\x92" + _ints(value.numerator, value.denominator)
    writer.parts.append(_wire.ext(_wire.FRACTION, payload))


def _read_fraction(reader: Reader, end: int, depth: int) -> Fraction:
    numerator, denominator = reader.ints(2)
    if max(numerator.bit_length(), denominator.bit_length()) > _RATIO_BITS:
        raise ValueError("the numbers are too large")
    return Fraction(numerator, denominator)


# Dates and times. Everything but ints must be kept away from datetime's constructors, which take
# pickled state in the place of the year.


def _date(value: dt.date) -> bytes:
    return _wire.ext(_wire.DATE, b"\x93" + _ints(value.year, value.month, value.day))


def _read_date(reader: Reader, end: int, depth: int) -> dt.date:
    year, month, day = reader.ints(3)
    return dt.date(year, month, day)


def _timedelta(value: dt.timedelta) -> bytes:
    payload = b"\x93" + _ints(value.days, value.seconds, value.microseconds)
    return _wire.ext(_wire.TIMEDELTA, payload)


def _read_timedelta(reader: Reader, end: int, depth: int) -> dt.timedelta:
    days, seconds, microseconds = reader.ints(3)
    return dt.timedelta(days, seconds, microseconds)


def _time(writer: Writer, value: dt.time, depth: int) -> None:
    mark = writer.open_ext()
    writer.parts.append(
        b"\x96" + _ints(value.hour, value.minute, value.second, value.microsecond, value.fold)
    )
    _write_zone(writer, value)
    writer.close_ext(mark, _wire.TIME)


def _datetime(writer: Writer, value: dt.datetime, depth: int) -> None:
    mark = writer.open_ext()
    day = _ints(value.year, value.month, value.day)
    time = _ints(value.hour, value.minute, value.second, value.microsecond, value.fold)
    writer.parts.append(b"\x99" + day + time)
    _write_zone(writer, value)
    writer.close_ext(mark, _wire.DATETIME)


def _write_zone(writer: Writer, value: dt.time | dt.datetime) -> None:
    zone = value.tzinfo
    if zone is not None and type(zone) not in (dt.timezone, zoneinfo.ZoneInfo):
        raise Refusal(
            f"a time zone of type {type(zone).__module__}.{type(zone).__qualname__} cannot be "
            "stored; use datetime.timezone or zoneinfo.ZoneInfo"
        )
    writer.write(zone, MAX_DEPTH)


def _read_time(reader: Reader, end: int, depth: int) -> dt.time | Opaque:
    start = reader.pos
    *parts, zone = reader.record(6)
    if type(zone) is Opaque:
        return _kept(reader, start, end, _wire.TIME)
    hour, minute, second, microsecond, fold = _only_ints(parts)
    _check_zone(zone)
    return dt.time(hour, minute, second, microsecond, zone, fold=fold)


def _read_datetime(reader: Reader, end: int, depth: int) -> dt.datetime | Opaque:
    start = reader.pos
    *parts, zone = reader.record(9)
    if type(zone) is Opaque:
        return _kept(reader, start, end, _wire.DATETIME)
    year, month, day, hour, minute, second, microsecond, fold = _only_ints(parts)
    _check_zone(zone)
    return dt.datetime(year, month, day, hour, minute, second, microsecond, zone, fold=fold)


def _only_ints(values: list[Any]) -> list[int]:
    if any(type(value) is not int for value in values):
        raise ValueError("a part of it is no int")
    return values


def _check_zone(zone: object) -> None:
    if zone is not None and type(zone) not in (dt.timezone, zoneinfo.ZoneInfo):
        raise ValueError(f"a time zone cannot be a {type(zone).__name__}")


def _kept(reader: Reader, start: int, end: int, code: int) -> Opaque:
    reader.pos = start
    return Opaque(code, reader.raw(end), _wire.NAMES[code])


def _timezone(value: dt.timezone) -> bytes:
    offset = value.utcoffset(None)
    # Only this tells a zone without a name from one whose name is what it would be without.
    named = value.__getinitargs__()[1:]  # type: ignore[attr-defined]  # not in typeshed
    parts = _ints(offset.days, offset.seconds, offset.microseconds)
    payload = bytes((0x93 + len(named),)) + parts + b"".join(map(pack_str, named))
    return _wire.ext(_wire.TIMEZONE, payload)


def _read_timezone(reader: Reader, end: int, depth: int) -> dt.timezone:
    days, seconds, microseconds, *name = reader.record(3, 4)
    offset = dt.timedelta(*_only_ints([days, seconds, microseconds]))
    return dt.timezone(offset, *name)


def _zone(writer: Writer, value: zoneinfo.ZoneInfo, depth: int) -> None:
    key = value.key
    if type(key) is not str or _ZONE_KEY.fullmatch(key) is None or len(key) > 255:
        raise Refusal("a ZoneInfo without a usual key cannot be stored; use ZoneInfo(key)")
    writer.parts.append(_wire.ext(_wire.ZONEINFO, key.encode("ascii")))


def _read_zone(reader: Reader, end: int, depth: int) -> zoneinfo.ZoneInfo | Opaque:
    raw = reader.raw(end)
    key = raw.decode("ascii")
    if _ZONE_KEY.fullmatch(key) is None or len(key) > 255:
        raise ValueError(f"{key!r:.40} is not the key of a time zone")
    zone = reader.zones.get(key)
    if zone is None and key not in reader.zones and reader.unknown_zones < MAX_ZONES:
        zone = reader.zones[key] = _look_up(key)
        reader.unknown_zones += zone is None
    return Opaque(_wire.ZONEINFO, raw, f"zoneinfo.ZoneInfo {key!r}") if zone is None else zone


def _look_up(key: str) -> zoneinfo.ZoneInfo | None:
    try:
        return zoneinfo.ZoneInfo(key)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the key is a folder
        return None


# UUIDs and paths


_SAFE: Final = {uuid.SafeUUID.unknown: b"", uuid.SafeUUID.safe: b"\1", uuid.SafeUUID.unsafe: b"\2"}


def _uuid(value: uuid.UUID) -> bytes:
    return _wire.ext(_wire.UUID, value.bytes + _SAFE[value.is_safe])


def _read_uuid(reader: Reader, end: int, depth: int) -> uuid.UUID:
    raw = reader.raw(end)
    for safe, byte in _SAFE.items():
        if raw[16:] == byte:
            return uuid.UUID(bytes=raw[:16], is_safe=safe)
    raise ValueError("it has too many bytes")


_PATHS: Final = (
    pathlib.PurePosixPath,
    pathlib.PureWindowsPath,
    pathlib.PosixPath,
    pathlib.WindowsPath,
)


def _path(writer: Writer, value: pathlib.PurePath, depth: int) -> None:
    text = str(value)
    if not _settled(value):
        raise Refusal(f"the path {text!r:.40} would come back as another; store str(path)")
    payload = bytes((0x92, _PATHS.index(type(value)))) + pack_str(text)
    writer.parts.append(_wire.ext(_wire.PATH, payload))


def _settled(path: pathlib.PurePath) -> bool:
    """Whether the path's text gives the same path again; "./c:x" of Windows does not."""
    return type(path)(str(path)).parts == path.parts


def _read_path(reader: Reader, end: int, depth: int) -> pathlib.PurePath | Opaque:
    start = reader.pos
    flavour, text = reader.record(2)
    if type(flavour) is not int or not 0 <= flavour < len(_PATHS) or type(text) is not str:
        raise ValueError("it has no flavour and text")
    kind = _PATHS[flavour]
    try:
        path = kind(text)
    except NotImplementedError:  # a path for the file system of another platform
        reader.pos = start
        return Opaque(_wire.PATH, reader.raw(end), f"pathlib.{kind.__name__}")
    if not _settled(path):
        raise ValueError("its text gives another path")
    return path


LEAVES.update(
    {
        Decimal: _decimal,
        dt.date: _date,
        dt.timedelta: _timedelta,
        dt.timezone: _timezone,
        uuid.UUID: _uuid,
    }
)
COMPOSITES.update(
    {
        Fraction: _fraction,
        dt.time: _time,
        dt.datetime: _datetime,
        zoneinfo.ZoneInfo: _zone,
    }
)
COMPOSITES.update(dict.fromkeys(_PATHS, _path))
DECODERS.update(
    {
        _wire.DECIMAL: _read_decimal,
        _wire.FRACTION: _read_fraction,
        _wire.DATE: _read_date,
        _wire.TIME: _read_time,
        _wire.DATETIME: _read_datetime,
        _wire.TIMEDELTA: _read_timedelta,
        _wire.TIMEZONE: _read_timezone,
        _wire.ZONEINFO: _read_zone,
        _wire.UUID: _read_uuid,
        _wire.PATH: _read_path,
    }
)
