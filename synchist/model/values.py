"""Recorded values before they are columns: Python scalars, `Coded`, or `Deferred`."""

from __future__ import annotations

from typing import Any

from ..codec import encode
from ..codec._snapshot import Snapshot

__all__ = ["Coded", "Deferred", "encoded", "resolve"]


class Coded:
    """A value that is already in the codec's bytes (it was copied when it was recorded)."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Deferred:
    """A recorded value of which at least one tensor may still be on its device.

    Attributes:
        tensor: for a scalar, a 0-d tensor, or a 1-d one of which `index` is this value.
        snap: for anything else, the snapshot with its tensors.
        result: the value, once fetched.
    """

    __slots__ = ("__weakref__", "index", "result", "snap", "tensor")

    def __init__(self, tensor: Any, snap: Snapshot | None) -> None:
        self.tensor = tensor
        self.index = 0
        self.snap = snap
        self.result: Any = None

    def tensors(self) -> list[Any]:
        """The tensors to fetch."""
        return [self.tensor] if self.snap is None else list(self.snap.tensors)


def resolve(value: Any) -> Any:
    """A recorded value once its tensors were fetched: a Python scalar or `Coded`."""
    return value.result if type(value) is Deferred else value


def encoded(value: Any) -> bytes:
    """The codec's bytes of a resolved value."""
    return value.data if type(value) is Coded else encode(value)
