"""Encoded arrays and tensors that say about themselves what one likes."""

from __future__ import annotations

from typing import Any

from synchist.codec import encode
from synchist.codec._wire import bin_header, ext

__all__ = ["shaped", "tensor"]


def shaped(dtype: Any, shape: tuple[int, ...], data: bytes = b"", order: str = "C") -> bytes:
    """An encoded array that says these things about itself."""
    payload = b"\x94" + encode(dtype) + encode(list(shape)) + encode(order)
    return ext(32, payload + bin_header(len(data)) + data)


def tensor(dtype: str, shape: tuple[int, ...], data: bytes = b"") -> bytes:
    return ext(64, b"\x93" + encode(dtype) + encode(list(shape)) + bin_header(len(data)) + data)
