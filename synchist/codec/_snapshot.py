"""Encoding now what is on its device: the bytes later, the value as it is at this moment.

Reading a tensor that is on a GPU makes the CPU wait for the GPU. Recording must not: so a value
with such tensors is encoded at once but for their data, which is cloned on the device by an
asynchronous copy and filled in later, when many tensors can be moved in one transfer.

The contract:

- `snapshot(value)` does everything that `encode(value)` does, with the same refusals, and copies
  everything: later changes to the value show nowhere. It waits for no device. Where no tensor had
  to be deferred (plain values, arrays, CPU tensors), it returns the bytes, those that `encode`
  gives. Otherwise it returns a `Snapshot`.
- `Snapshot.tensors` are the clones, dense, contiguous and detached, on their devices, in the order
  in which `finish` wants them. The caller moves them to the CPU, in whatever grouping, and waits
  until the copies are complete.
- `Snapshot.finish(cpu_tensors)` returns the bytes that `encode(value)` would have returned at the
  time of the snapshot. It may be called again.

One exception to "waits for no device": the order of a set's elements depends on their bytes, so a
tensor inside a set is read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._encode import Hole, Refusal, Writer
from ._registry import DEFAULT, Registry
from ._tables import LEAVES
from ._torch import data_of

__all__ = ["Snapshot", "snapshot"]


class Snapshot:
    """An encoded value that lacks the data of its device tensors. Immutable; made by `snapshot`.

    Attributes:
        tensors: the tensors whose data is missing, on their devices.
        nbytes: length of the finished encoding.
    """

    __slots__ = ("_between", "nbytes", "tensors")

    def __init__(self, between: list[bytes], tensors: tuple[Any, ...], nbytes: int) -> None:
        self._between = between
        self.tensors = tensors
        self.nbytes = nbytes

    def finish(self, cpu_tensors: Sequence[Any]) -> bytes:
        """The encoding, with the data of `cpu_tensors` in place of that of `tensors`.

        Raises:
            ValueError: they do not match `tensors` in number, dtype and shape, or are not on the
                CPU.
        """
        parts: list[bytes | memoryview] = [self._between[0]]
        for tensor, arrived, after in zip(
            self.tensors, cpu_tensors, self._between[1:], strict=True
        ):
            if arrived.dtype != tensor.dtype or arrived.shape != tensor.shape or not arrived.is_cpu:
                raise ValueError(
                    f"expected a CPU tensor of {tensor.dtype} and shape {tuple(tensor.shape)}, "
                    f"got {arrived.dtype} and {tuple(arrived.shape)} on {arrived.device}"
                )
            parts += (data_of(arrived), after)
        return b"".join(parts)


def snapshot(
    value: Any,
    *,
    registry: Registry | None = None,
    defer: Callable[[Any], bool] = lambda tensor: not tensor.is_cpu,
) -> bytes | Snapshot:
    """The encoding of `value` as it is now, or all of it but the data of its device tensors.

    Args:
        value: what to encode.
        registry: where registered types are looked up; by default the default registry.
        defer: asked for every tensor, says whether its data is to be filled in later.

    Raises:
        UnsupportedTypeError: the value, or something in it, cannot be stored exactly.
        TooLargeError: something in it exceeds a limit.
    """
    leaf = LEAVES.get(type(value))
    if leaf is not None:
        return leaf(value)
    writer = Writer(DEFAULT if registry is None else registry, defer)
    try:
        writer.write(value, 0)
    except Refusal as refusal:
        raise refusal.error() from refusal.__cause__
    between: list[bytes] = []
    tensors = []
    run: list[bytes | memoryview] = []
    for part in writer.parts:
        if isinstance(part, Hole):
            between.append(b"".join(run))
            tensors.append(part.tensor)
            run = []
        else:
            run.append(part)
    between.append(b"".join(run))
    if not tensors:
        return between[0]
    return Snapshot(between, tuple(tensors), sum(map(len, writer.parts)))
