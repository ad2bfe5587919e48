"""Tensors between being recorded and being needed on the host.

Recording must not wait for a device, yet must keep the value of this moment. So a tensor is cloned
where it is, and a `Deferred` stands for it among the recorded values. `Tray.fetch` brings all of
them over in one transfer per device and dtype.

torch is looked up, never imported: a value can only be a tensor if its program imported torch.
"""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any, Final

from ..codec._snapshot import snapshot
from ..deadline import Deadline
from ..errors import SyncTimeoutError
from .values import Coded, Deferred

__all__ = ["Tray"]

_COMPACT_EVERY: Final = 1024
_POLL_SECONDS: Final = 0.0002


class Tray:
    """The deferred values of one rank. Not thread-safe.

    It holds them weakly: a value that was overwritten before it was needed costs no transfer.
    """

    def __init__(self) -> None:
        self._waiting: list[weakref.ref[Deferred]] = []
        self._loose = 0
        self._streams: set[Any] = set()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def capture(self, value: Any) -> Any:
        """A copy of `value` as it is now: `Coded`, or `Deferred` if a tensor is in it.

        Raises:
            UnsupportedTypeError: the value cannot be stored exactly.
        """
        torch = sys.modules.get("torch")
        if torch is not None and type(value) in _tensor_types(torch) and _is_scalar(torch, value):
            return self._defer(torch, Deferred(value.detach().clone(), None))
        snap = snapshot(value)
        if isinstance(snap, bytes):
            return Coded(snap)
        return self._defer(torch, Deferred(None, snap))

    def _defer(self, torch: Any, deferred: Deferred) -> Deferred:
        for tensor in deferred.tensors():
            if tensor.device.type == "cuda":
                self._streams.add(torch.cuda.current_stream(tensor.device))
        self._waiting.append(weakref.ref(deferred))
        self._loose += 1
        if self._loose >= _COMPACT_EVERY:
            self.compact()
        return deferred

    def _live(self) -> list[Deferred]:
        return [found for ref in self._waiting if (found := ref()) is not None]

    def compact(self) -> None:
        """Pack single scalars into vectors on their device, where each would take a block."""
        torch = sys.modules["torch"]
        live = self._live()
        groups: dict[tuple[Any, Any], list[Deferred]] = {}
        for item in live:
            if item.snap is None and item.tensor.dim() == 0:
                groups.setdefault((item.tensor.device, item.tensor.dtype), []).append(item)
        for items in groups.values():
            vector = torch.stack([item.tensor for item in items])
            for index, item in enumerate(items):
                item.tensor, item.index = vector, index
        self._waiting = [weakref.ref(item) for item in live]
        self._loose = 0

    def fetch(self, deadline: Deadline | None = None) -> bool:
        """Bring every value over; True when there were any. Waits for the devices.

        Raises:
            SyncTimeoutError: a device had not finished by the deadline; call again later.
        """
        if not self._waiting:
            return False
        torch = sys.modules["torch"]
        live = self._live()
        groups: dict[tuple[Any, Any], _Group] = {}
        for scalars in (True, False):  # scalars first, so that they are one slice of the transfer
            for item in live:
                if (item.snap is None) is scalars:
                    for tensor in item.tensors():
                        key = (tensor.device, tensor.dtype)
                        groups.setdefault(key, _Group()).add(tensor, scalars)
        for stream in self._streams:
            torch.cuda.current_stream(stream.device).wait_stream(stream)
        for group in groups.values():
            group.send(torch)
        for group in groups.values():
            group.receive(deadline)
        for item in live:
            if item.snap is None:
                group = groups[(item.tensor.device, item.tensor.dtype)]
                item.result = group.number(item.tensor, item.index)
            else:
                tensors = [groups[(t.device, t.dtype)].tensor(t) for t in item.tensors()]
                item.result = Coded(item.snap.finish(tensors))
        for item in live:
            item.tensor = item.snap = None
        self._waiting, self._loose, self._streams = [], 0, set()
        return True


class _Group:
    """Tensors of one device and dtype, moved to the host as one."""

    def __init__(self) -> None:
        self._tensors: list[Any] = []
        self._offsets: dict[int, int] = {}
        self._size = 0
        self._scalars = 0
        self._flat: Any = None
        self._event: Any = None
        self._numbers: list[Any] = []

    def add(self, tensor: Any, scalars: bool) -> None:
        if id(tensor) in self._offsets:
            return
        self._offsets[id(tensor)] = self._size
        self._tensors.append(tensor)
        self._size += tensor.numel()
        if scalars:
            self._scalars = self._size

    def send(self, torch: Any) -> None:
        parts = [tensor.reshape(-1) for tensor in self._tensors]
        flat = parts[0] if len(parts) == 1 else torch.cat(parts)
        if flat.device.type == "cuda":
            host = torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True)
            host.copy_(flat, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(flat.device))
            self._flat = host
        else:
            self._flat = flat.cpu()

    def receive(self, deadline: Deadline | None) -> None:
        # An event is polled, not waited for: a collective that hangs on the stream would otherwise
        # take this call along, whatever its deadline.
        while self._event is not None and not self._event.query():
            if deadline is not None and deadline.expired:
                raise SyncTimeoutError(
                    "this rank's own device did not deliver the recorded tensors within "
                    f"{deadline.seconds:g} s (a kernel or a collective is still running); "
                    "the call can be repeated"
                )
            time.sleep(_POLL_SECONDS)
        if self._scalars:
            self._numbers = self._flat[: self._scalars].tolist()

    def number(self, tensor: Any, index: int) -> Any:
        return self._numbers[self._offsets[id(tensor)] + index]

    def tensor(self, tensor: Any) -> Any:
        start = self._offsets[id(tensor)]
        return self._flat[start : start + tensor.numel()].reshape(tensor.shape)


def _tensor_types(torch: Any) -> tuple[type, ...]:
    return torch.Tensor, torch.nn.Parameter


def _is_scalar(torch: Any, tensor: Any) -> bool:
    """Whether a history keeps this tensor as a Python number or bool."""
    return (
        tensor.dim() == 0
        and tensor.layout is torch.strided
        and tensor.device.type != "meta"
        and not tensor.is_quantized
        and not tensor.is_complex()
        and not str(tensor.dtype).startswith(_NOT_NUMBERS)
    )


_NOT_NUMBERS: Final = ("torch.bits", "torch.float4", "torch.int1.", "torch.uint1.")
