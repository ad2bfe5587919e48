"""Whether two values are the same to the bit, judged without the codec."""

from __future__ import annotations

import dataclasses
import datetime as dt
import struct
import uuid
import zoneinfo
from decimal import Decimal
from enum import Enum
from typing import Any

import attrs
import numpy as np
import torch

from synchist.codec import Opaque

__all__ = ["same"]

EXACT = (type(None), bool, int, str, bytes, bytearray, np.str_, np.bytes_, Opaque, Enum)
IDENTICAL = (torch.dtype,)


def same(one: Any, other: Any) -> bool:
    """Equal type, bits and order, all the way down. A type it does not know is an error."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.generic) and not isinstance(one, np.str_ | np.bytes_):
        return _same_array(np.asarray(one), np.asarray(other))
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, complex):
        return struct.pack("dd", one.real, one.imag) == struct.pack("dd", other.real, other.imag)
    if isinstance(one, set | frozenset):
        return _same_elements(list(one), list(other))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if type(one) is np.ndarray:
        return _same_array(one, other)
    if type(one) is torch.Tensor:
        return _same_tensor(one, other)
    if attrs.has(type(one)) and not isinstance(one, Opaque):
        names = [field.name for field in attrs.fields(type(one))]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return _same_scalar(one, other)


def _same_scalar(one: Any, other: Any) -> bool:
    if isinstance(one, EXACT):
        return bool(one == other)
    if isinstance(one, IDENTICAL):
        return one is other
    if isinstance(one, Decimal):
        return bool(one.as_tuple() == other.as_tuple())
    if isinstance(one, dt.datetime):
        return (
            one.replace(tzinfo=None) == other.replace(tzinfo=None)
            and one.fold == other.fold
            and same(one.tzinfo, other.tzinfo)
        )
    if isinstance(one, dt.time):
        return (
            one.replace(tzinfo=None) == other.replace(tzinfo=None)
            and one.fold == other.fold
            and same(one.tzinfo, other.tzinfo)
        )
    if isinstance(one, dt.timezone):
        return repr(one) == repr(other)  # tells a zone without a name from one with its usual name
    if isinstance(one, zoneinfo.ZoneInfo):
        return bool(one.key == other.key)
    if isinstance(one, uuid.UUID):
        return one == other and one.is_safe is other.is_safe
    if isinstance(one, range):
        return (one.start, one.stop, one.step) == (other.start, other.stop, other.step)
    return bool(one == other) and repr(one) == repr(other)


def _same_elements(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    rest = list(other)
    for element in one:
        found = next((i for i, candidate in enumerate(rest) if same(element, candidate)), None)
        if found is None:
            return False
        del rest[found]
    return True


def _same_array(one: Any, other: Any) -> bool:
    return (
        one.shape == other.shape
        and same_dtype(one.dtype, other.dtype)
        and (one.flags.f_contiguous and not one.flags.c_contiguous)
        == (other.flags.f_contiguous and not other.flags.c_contiguous)
        and _same_items(one, other)
    )


def same_dtype(one: Any, other: Any) -> bool:
    """Equal, of one C type, with the same fields at the same places."""
    return (
        one == other
        and one.char == other.char
        and one.str == other.str
        and one.type is other.type
        and one.itemsize == other.itemsize
        and one.isalignedstruct == other.isalignedstruct
        and one.names == other.names
        and all(
            one.fields[name][1:] == other.fields[name][1:]
            and same_dtype(one.fields[name][0], other.fields[name][0])
            for name in one.names or ()
        )
        and (one.subdtype is None or same_dtype(one.subdtype[0], other.subdtype[0]))
    )


def _same_items(one: Any, other: Any) -> bool:
    if one.dtype.names is not None:
        return all(_same_items(one[name], other[name]) for name in one.dtype.names)
    if one.dtype.char in "gG":  # the padding of a long double is no part of it
        one, other = (
            one.astype(one.dtype.newbyteorder("=")),
            other.astype(other.dtype.newbyteorder("=")),
        )
        numbers = np.array_equal(one, other, equal_nan=True)
        return bool(numbers) and np.array_equal(np.signbit(one.real), np.signbit(other.real))
    return bool(one.tobytes() == other.tobytes())


def _same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return _bits(one) == _bits(other)


def _bits(tensor: torch.Tensor) -> bytes:
    dense = torch.empty(tensor.numel() * tensor.element_size(), dtype=torch.uint8)
    dense.view(tensor.dtype).reshape(tensor.shape).copy_(tensor.detach())
    return bytes(dense.numpy())
