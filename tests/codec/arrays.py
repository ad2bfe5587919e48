"""Hypothesis strategies for what numpy and torch bring: scalars, arrays and tensors of any bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

__all__ = ["NUMPY", "TENSOR_DTYPES", "TORCH", "arrays", "dtypes", "tensors"]

Strategy = st.SearchStrategy[Any]

UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25s", "7D"]
NUMBERS = ["b1", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8))]
NUMBERS += ["f2", "f4", "f8", "c8", "c16"]

orders = st.sampled_from("<>")
numbers = st.builds(lambda order, name: np.dtype(order + name), orders, st.sampled_from(NUMBERS))
twins = st.builds(
    lambda char, order: np.dtype(char).newbyteorder(order), st.sampled_from("bhilqBHILQdD"), orders
)
long_doubles = st.builds(
    lambda char, order: np.dtype(char).newbyteorder(order), st.sampled_from("gG"), orders
)
texts = st.builds(
    lambda order, kind, size: np.dtype(f"{order}{kind}{size}"),
    orders,
    st.sampled_from("SUV"),
    st.integers(1, 5),
)
dates = st.builds(
    lambda order, kind, unit: np.dtype(f"{order}{kind}8[{unit}]"),
    orders,
    st.sampled_from("mM"),
    st.sampled_from(UNITS),
) | st.sampled_from([np.dtype("<M8"), np.dtype(">m8")])
flat = st.one_of(numbers, twins, long_doubles, texts, dates)


@st.composite
def structured(draw: st.DrawFn, inner: Strategy) -> Any:
    """Fields in any order of offsets, with holes, subarrays, titles or alignment."""
    names = draw(st.lists(st.text(min_size=1, max_size=3), max_size=4, unique=True))
    formats = []
    for _ in names:
        dtype = draw(inner)
        shape: Any = draw(st.sampled_from([(), (), (2,), (1, 3), (0,)]))
        formats.append(np.dtype((dtype, shape)) if shape else dtype)
    if draw(st.booleans()):
        packed: Any = {"names": names, "formats": formats}
        return np.dtype(packed, align=draw(st.booleans()) is True)
    offsets, end = [], 0
    for dtype in formats:
        offset = end + draw(st.integers(0, 3))
        offsets.append(offset)
        end = offset + dtype.itemsize
    layout: Any = {
        "names": names,
        "formats": formats,
        "offsets": offsets,
        "itemsize": end + draw(st.integers(0, 3)),
    }
    if draw(st.booleans()) and names:
        layout["titles"] = [f"title of {n}" for n in range(len(names) - 1)] + [None]
    return np.dtype(layout)


dtypes = flat | st.recursive(flat, structured, max_leaves=4)
"""Every dtype that can be stored."""


def _sound(array: Any, text: str) -> None:
    """Makes bools and characters what they can be; any other bits stay."""
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _sound(array[name], text)
    elif array.dtype.kind == "b":
        array.view("u1")[...] &= 1
    elif array.dtype.kind == "U":
        array[...] = text


shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple) | st.sampled_from([(1,) * 20, (40,)])


@st.composite
def arrays(draw: st.DrawFn, of: Strategy = dtypes) -> Any:
    """Arrays of any dtype and bits: C or Fortran order, strided, broadcast, reversed, read-only."""
    dtype = draw(of)
    shape = draw(shapes)
    count = int(np.prod(shape))
    raw = bytearray(draw(st.binary(min_size=17, max_size=17)) * (count * dtype.itemsize // 17 + 1))
    array = np.ndarray(shape, dtype, buffer=raw, order=draw(st.sampled_from("CF")))
    _sound(array, draw(st.text(st.characters(exclude_categories=()), max_size=5)))
    view = draw(st.sampled_from(["as it is", "transposed", "strided", "reversed", "broadcast"]))
    if view == "transposed":
        array = array.T
    elif view == "strided" and array.ndim:
        array = array[..., ::2]
    elif view == "reversed" and array.ndim:
        array = array[::-1]
    elif view == "broadcast":
        array = np.broadcast_to(array, (2, *array.shape))
    return array


def scalars(of: Strategy) -> Strategy:
    """numpy scalars of these dtypes and any bits."""
    return arrays(of).filter(lambda array: array.size).map(lambda array: array.reshape(-1)[0])


NUMPY: dict[str, Strategy] = {
    **{f"numpy scalar {name}": scalars(st.just(np.dtype(name))) for name in NUMBERS},
    "numpy scalar of a C type": scalars(twins | long_doubles),
    "numpy scalar text": scalars(texts),
    "numpy scalar date": scalars(dates),
    "numpy scalar record": scalars(structured(flat)),
    "ndarray of numbers": arrays(numbers | twins | long_doubles),
    "ndarray of text": arrays(texts),
    "ndarray of dates": arrays(dates),
    "ndarray of records": arrays(structured(flat)),
    "ndarray": arrays(),
}

TENSOR_DTYPES = [
    getattr(torch, name)
    for name in (
        "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
        "bfloat16", "float16", "float32", "float64", "complex32", "complex64", "complex128",
        "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
        "float4_e2m1fn_x2",
    )
    if hasattr(torch, name)
]  # fmt: skip


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Dense tensors of every dtype and any bits: views, conjugates, with gradients."""
    dtype = draw(st.sampled_from(TENSOR_DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    count = int(np.prod(shape))
    raw = bytearray(draw(st.binary(min_size=17, max_size=17)) * (count * dtype.itemsize // 17 + 1))
    flat_bytes = torch.frombuffer(raw, dtype=torch.uint8)[: count * dtype.itemsize].clone()
    if dtype is torch.bool:
        flat_bytes &= 1
    tensor = flat_bytes.view(dtype).reshape(shape)
    view = draw(
        st.sampled_from(["as it is", "transposed", "strided", "expanded", "conjugate", "grad"])
    )
    if view == "transposed" and tensor.ndim >= 2:
        tensor = tensor.transpose(0, 1)
    elif view == "strided" and tensor.ndim:
        tensor = tensor[::2]
    elif view == "expanded":
        tensor = tensor.expand(2, *tensor.shape)
    elif view == "conjugate" and dtype in (torch.complex64, torch.complex128):
        tensor = tensor.conj()
    elif view == "gradient" and dtype in (torch.float32, torch.float64, torch.bfloat16):
        tensor.requires_grad_()
    return tensor


TORCH: dict[str, Strategy] = {
    "torch.Tensor": tensors(),
    "torch.Size": st.lists(st.integers(0, 2**40), max_size=5).map(torch.Size),
    "torch.dtype": st.sampled_from([*TENSOR_DTYPES, torch.quint8]),
    "torch.device": st.sampled_from(["cpu", "cuda", "cuda:0", "cuda:3", "meta", "mps"]).map(
        torch.device
    ),
}
