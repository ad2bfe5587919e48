"""torch tensors, and torch's Size, dtype and device."""

from __future__ import annotations

import ctypes
import math
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from . import _wire
from ._encode import Hole, Refusal, Writer
from ._limits import MAX_DIMENSIONS
from ._opaque import Opaque
from ._scalars import pack_int, pack_str
from ._tables import COMPOSITES, DECODERS, LEAVES

if TYPE_CHECKING:
    from ._reader import Reader

__all__ = ["CODES", "install"]

CODES: Final = (_wire.TENSOR, _wire.TORCH_SIZE, _wire.TORCH_DTYPE, _wire.TORCH_DEVICE)
"""The extension codes that it takes torch to read."""

_DENSE: Final = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "bfloat16", "float16", "float32", "float64", "complex32", "complex64", "complex128",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float4_e2m1fn_x2",
)  # fmt: skip
"""The dtypes a stored tensor may have."""

torch: Any = None
_dense: dict[Any, str] = {}
_by_name: dict[str, Any] = {}


def install(module: Any) -> None:
    """Adds torch's types to the tables."""
    global torch, _dense, _by_name
    torch = module
    # Not getattr: torch resolves unknown names by importing submodules.
    names = vars(torch)
    _by_name = {n: names[n] for n in _DENSE if isinstance(names.get(n), torch.dtype)}
    _dense = {dtype: name for name, dtype in _by_name.items()}
    COMPOSITES[torch.Tensor] = _write_tensor
    COMPOSITES[torch.Size] = _write_size
    LEAVES[torch.dtype] = _pack_dtype
    LEAVES[torch.device] = _pack_device
    DECODERS[_wire.TENSOR] = _read_tensor
    DECODERS[_wire.TORCH_SIZE] = _read_size
    DECODERS[_wire.TORCH_DTYPE] = _read_dtype
    DECODERS[_wire.TORCH_DEVICE] = _read_device


def _write_tensor(writer: Writer, value: Any, depth: int) -> None:
    _check(value)
    shape = tuple(value.shape)
    size = value.element_size() * math.prod(shape)
    mark = writer.open_ext()
    append = writer.parts.append
    append(b"\x93" + pack_str(_dense[value.dtype]))
    append(_wire.array_header(len(shape)) + b"".join(map(pack_int, shape)))
    append(_wire.bin_header(size))
    if writer.defer is not None and writer.defer(value):
        append(Hole(_settled(value).clone(memory_format=torch.contiguous_format), size))
    elif size:
        append(data_of(value))
    writer.close_ext(mark, _wire.TENSOR)


def _check(value: Any) -> None:
    if value.layout is not torch.strided or value.is_nested:
        raise Refusal("a tensor that is not dense cannot be stored; convert it with to_dense()")
    if value.is_meta:
        raise Refusal("a tensor on the meta device has no data to store")
    if value.dtype not in _dense:
        raise Refusal(
            f"a tensor of {value.dtype} cannot be stored; convert it with to(dtype), or "
            "dequantize() a quantized one"
        )
    if any(getattr(value, "names", ())):  # newer torch has no names
        raise Refusal("a tensor with named dimensions cannot be stored; use rename(None)")
    if value.ndim > MAX_DIMENSIONS:
        raise Refusal(f"a tensor of more than {MAX_DIMENSIONS} dimensions cannot be stored")


def _settled(value: Any) -> Any:
    """The tensor without its gradient graph, and without an operation that is still to be done."""
    if value.dtype is torch.bool:
        return value.detach().view(torch.uint8).ne(0)  # any other byte than 0 means True
    return value.detach().resolve_conj().resolve_neg()


def data_of(value: Any) -> memoryview:
    """The data of a dense tensor in C order, little-endian; copied only where it has to be."""
    value = _settled(value).cpu().contiguous()
    if value.numel() == 0:
        return memoryview(b"")
    view = _memory(value)
    return view if sys.byteorder == "little" else memoryview(swapped(view, _unit(value.dtype)))


def _memory(tensor: Any) -> memoryview:
    """The bytes of a contiguous CPU tensor that has some, by way of which they can be changed."""
    size = tensor.element_size() * tensor.numel()
    buffer = (ctypes.c_char * size).from_address(tensor.data_ptr())
    buffer.owner = tensor  # the memory lives as long as the tensor
    return memoryview(buffer).cast("B")


def _unit(dtype: Any) -> int:
    size: int = dtype.itemsize
    return size // 2 if dtype.is_complex else size


def swapped(data: bytes | memoryview, unit: int) -> bytes:
    """The data with the bytes of every `unit` of them in reverse."""
    out = bytearray(len(data))
    for place in range(unit):
        out[place::unit] = data[unit - 1 - place :: unit]
    return bytes(out)


def _read_tensor(reader: Reader, end: int, depth: int) -> Any:
    start = reader.pos
    if reader.array_header() != 3:
        raise reader.corrupt("a tensor is not three values", start)
    name = reader.text()
    dtype = _by_name.get(name)
    if dtype is None:
        if re.fullmatch(r"[a-z0-9_]{1,40}", name) is None:
            raise reader.corrupt(f"{name!r:.40} is not a dtype", start)
        reader.pos = start
        return Opaque(_wire.TENSOR, reader.raw(end), "torch.Tensor")
    shape = tuple(reader.ints(0, MAX_DIMENSIONS))
    data = reader.bin_view()
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(data):
        raise reader.corrupt(
            f"{len(data)} bytes of data do not make a tensor of shape {shape!r:.80} and {dtype}",
            start,
        )
    if not len(data):
        if math.prod(n for n in shape if n) * dtype.itemsize > sys.maxsize:
            raise reader.corrupt(f"a tensor cannot have the shape {shape!r:.80}", start)
    elif name == "bool" and bytes(data).translate(None, b"\0\1"):
        raise reader.corrupt("a tensor has bools that do not exist", start)
    if sys.byteorder == "big":
        data = memoryview(swapped(data, _unit(dtype)))
    # As bytes first: making a complex32 tensor outright warns.
    tensor = torch.empty(len(data), dtype=torch.uint8)
    if data:
        _memory(tensor)[:] = data
    return tensor.view(dtype).reshape(shape).detach()


def _write_size(writer: Writer, value: Any, depth: int) -> None:
    if any(type(n) is not int for n in value):
        raise Refusal("a torch.Size with symbolic dimensions cannot be stored")
    if len(value) > MAX_DIMENSIONS:
        raise Refusal(f"a torch.Size of more than {MAX_DIMENSIONS} dimensions cannot be stored")
    payload = _wire.array_header(len(value)) + b"".join(map(pack_int, value))
    writer.parts.append(_wire.ext(_wire.TORCH_SIZE, payload))


def _read_size(reader: Reader, end: int, depth: int) -> Any:
    return torch.Size(reader.ints(0, MAX_DIMENSIONS))


def _pack_dtype(value: Any) -> bytes:
    return _wire.ext(_wire.TORCH_DTYPE, str(value).removeprefix("torch.").encode())


def _read_dtype(reader: Reader, end: int, depth: int) -> Any:
    start = reader.pos
    raw = reader.raw(end)
    name = raw.decode("ascii")
    dtype = vars(torch).get(name)
    if isinstance(dtype, torch.dtype):
        return dtype
    if re.fullmatch(r"[a-z0-9_]{1,40}", name) is None:
        raise reader.corrupt(f"{name!r:.40} is not a dtype", start)
    return Opaque(_wire.TORCH_DTYPE, raw, "torch.dtype")


def _pack_device(value: Any) -> bytes:
    index = b"\xc0" if value.index is None else pack_int(value.index)
    return _wire.ext(_wire.TORCH_DEVICE, b"\x92" + pack_str(value.type) + index)


def _read_device(reader: Reader, end: int, depth: int) -> Any:
    start = reader.pos
    kind, index = reader.record(2)
    if type(kind) is not str or re.fullmatch(r"[a-z]{1,40}", kind) is None:
        raise reader.corrupt("the type of a device is wrong", start)
    if index is not None and (type(index) is not int or not 0 <= index <= 127):
        raise reader.corrupt("the index of a device is wrong", start)
    try:
        return torch.device(kind) if index is None else torch.device(kind, index)
    except RuntimeError:  # a kind of device that this build does not have
        reader.pos = start
        return Opaque(_wire.TORCH_DEVICE, reader.raw(end), "torch.device")
