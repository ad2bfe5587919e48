"""numpy dtypes: to and from what stands for them in the data, from an allow-list."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from ._encode import Refusal
from ._limits import MAX_DIMENSIONS, MAX_FIELDS

__all__ = ["BadDtype", "UnknownDtype", "describe", "mask", "rebuild"]

_TOKEN: Final = re.compile(
    r"(?P<str>[<>|](?:b1|[iu][1248]|f[248]|c8|c16|[SUV][0-9]{1,10}"
    r"|[mM]8(?:\[(?:[1-9][0-9]{0,8})?(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?))"
    r"(?::(?P<char>[bhilqBHILQdDgG]))?"
    r"|(?P<long>[<>](?:f16|c32))(?P<format>x87|quad)"
)

_FORMATS: Final = {63: "x87", 112: "quad"}
"""Bits of the fraction to the number format, of long doubles of 16 bytes."""

_MAX_ITEM: Final = 2**31 - 1
_MAX_LEVEL: Final = 60
"""Arrays inside each other in the description of a dtype."""


class BadDtype(ValueError):
    """The description is none that `describe` gives."""


class UnknownDtype(Exception):
    """The description is sound, but this platform has no such type."""


def describe(np: Any, dtype: Any) -> Any:
    """What stands for the dtype in the data: a str, or a list of strs, ints and lists.

    Raises:
        Refusal: the dtype cannot be stored exactly.
    """
    described = _describe(np, dtype, 0)
    try:
        same = _same(rebuild(np, described), dtype)
    except (BadDtype, UnknownDtype):
        same = False
    if not same:
        raise Refusal(_refused(dtype))
    return described


def _refused(dtype: Any) -> str:
    advice = "convert it to a bool, number, str, bytes, date or structured dtype"
    if dtype.hasobject:
        advice += ", or store a list (tolist())"
    return f"numpy's dtype {dtype!r:.80} cannot be stored exactly; {advice}"


def _describe(np: Any, dtype: Any, level: int) -> Any:
    if dtype.hasobject or dtype.metadata is not None or level > _MAX_LEVEL:
        raise Refusal(_refused(dtype))
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [_describe(np, base, level + 1), list(shape)]
    if dtype.names is None:
        return _token(np, dtype)
    fields = []
    for name in dtype.names:
        base, offset, *title = dtype.fields[name]
        field = [name, _describe(np, base, level + 3), offset]
        if title and title[0] is not None:
            if type(title[0]) is not str:
                raise Refusal(f"the title of field {name!r} is no str; use str titles, or none")
            field.append(title[0])
        fields.append(field)
    return [fields, dtype.itemsize, bool(dtype.isalignedstruct)]


def _token(np: Any, dtype: Any) -> str:
    token: str = dtype.str
    if dtype.char in "gG" and dtype.itemsize >= 16:
        return token + _FORMATS.get(np.finfo(np.longdouble).nmant, "?")
    if dtype.kind in "iufc" and np.dtype(token).char != dtype.char:
        return f"{token}:{dtype.char}"
    return token


def _same(one: Any, other: Any) -> bool:
    if one != other or one.type is not other.type or one.char != other.char:
        return False
    if one.isalignedstruct != other.isalignedstruct or one.names != other.names:
        return False
    if one.subdtype is not None:
        return _same(one.subdtype[0], other.subdtype[0])
    return all(_same(one.fields[name][0], other.fields[name][0]) for name in one.names or ())


def rebuild(np: Any, described: Any) -> Any:
    """The dtype that `describe` described; the description is not trusted.

    Raises:
        BadDtype: it is no description of a dtype.
        UnknownDtype: this platform has no such type.
    """
    if type(described) is str:
        return _from_token(np, described)
    if type(described) is not list:
        raise BadDtype(f"a dtype cannot be a {type(described).__name__}")
    if len(described) == 2:
        return _subarray(np, *described)
    if len(described) == 3:
        return _structured(np, *described)
    raise BadDtype("a dtype is described by 2 or 3 entries")


def _from_token(np: Any, token: str) -> Any:
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise BadDtype(f"{token!r:.40} is not a dtype that can be stored")
    if match["long"]:
        dtype = np.dtype("g" if match["long"][1] == "f" else "G")
        if _FORMATS.get(np.finfo(np.longdouble).nmant) != match["format"]:
            raise UnknownDtype(token)
        return dtype.newbyteorder(match["long"][0])
    size = int(re.sub(r"\D", "", match["str"][:12].partition("[")[0]))
    if match["str"][1] in "SUV" and size * (4 if match["str"][1] == "U" else 1) > _MAX_ITEM:
        raise BadDtype(f"{token!r} is too large")
    dtype = np.dtype(match["str"])
    if match["char"] is None:
        return dtype
    twin = np.dtype(match["char"]).newbyteorder(match["str"][0])
    if twin.kind != dtype.kind or twin.itemsize != dtype.itemsize:
        raise UnknownDtype(token)
    return twin


def _subarray(np: Any, base: Any, shape: Any) -> Any:
    dtype = rebuild(np, base)
    if type(shape) is not list or not 1 <= len(shape) <= MAX_DIMENSIONS:
        raise BadDtype("the shape of a subarray is wrong")
    if any(type(n) is not int or not 0 <= n <= _MAX_ITEM for n in shape):
        raise BadDtype("the shape of a subarray is wrong")
    if dtype.itemsize * math.prod(shape) > _MAX_ITEM:
        raise BadDtype("a subarray is too large")
    return np.dtype((dtype, tuple(shape)))


def _structured(np: Any, fields: Any, itemsize: Any, aligned: Any) -> Any:
    if type(fields) is not list or type(itemsize) is not int or type(aligned) is not bool:
        raise BadDtype("a structured dtype is an array of fields, a size and a bool")
    if len(fields) > MAX_FIELDS or not 0 <= itemsize <= _MAX_ITEM:
        raise BadDtype("a structured dtype is too large")
    names, formats, offsets, titles = [], [], [], []
    for field in fields:
        if type(field) is not list or not 3 <= len(field) <= 4:
            raise BadDtype("a field has a name, a dtype, an offset and perhaps a title")
        name, described, offset, *title = field
        dtype = rebuild(np, described)
        if type(name) is not str or any(type(text) is not str for text in title):
            raise BadDtype("the name or the title of a field is no str")
        if type(offset) is not int or not 0 <= offset <= itemsize - dtype.itemsize:
            raise BadDtype(f"field {name!r:.40} lies outside of its item")
        names.append(name)
        formats.append(dtype)
        offsets.append(offset)
        titles.append(title[0] if title else None)
    layout = {"names": names, "formats": formats, "offsets": offsets, "itemsize": itemsize}
    if any(title is not None for title in titles):
        layout["titles"] = titles
    return np.dtype(layout, align=aligned)


def mask(np: Any, dtype: Any) -> Any:
    """The bytes of an item that carry data, as 0xFF in an array of uint8; None where all do."""
    if dtype.names is None and dtype.subdtype is None and dtype.char not in "gG":
        return None
    used = np.zeros(dtype.itemsize, "u1")
    _mark(np, dtype, used)
    return None if used.all() else used


def _mark(np: Any, dtype: Any, used: Any) -> None:
    if dtype.subdtype is not None:
        base, _ = dtype.subdtype
        if base.itemsize and dtype.itemsize:
            inner = np.zeros(base.itemsize, "u1")
            _mark(np, base, inner)
            used |= np.tile(inner, dtype.itemsize // base.itemsize)
    elif dtype.names is not None:
        for name in dtype.names:
            base, offset, *_ = dtype.fields[name]
            _mark(np, base, used[offset : offset + base.itemsize])
    elif dtype.char in "gG" and _FORMATS.get(np.finfo(np.longdouble).nmant) == "x87":
        for start in range(0, dtype.itemsize, 16):
            first = start if dtype.str[0] == "<" else start + 6
            used[first : first + 10] = 0xFF
    else:
        used[:] = 0xFF
