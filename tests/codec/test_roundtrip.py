"""What goes in comes out: every type, compared by exact type and bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synchist.codec import decode, encode

from .arrays import NUMPY, TORCH, arrays, tensors
from .same import same
from .values import HASHABLE, PLAIN, REGISTERED, plain, registry, values

ALL = {
    **PLAIN,
    **HASHABLE,
    **{f"registered {name}": strategy(plain) for name, strategy in REGISTERED.items()},
    **NUMPY,
    **TORCH,
}

anything = values(arrays(), tensors(), *NUMPY.values(), *TORCH.values())


def back(value: Any) -> Any:
    data = encode(value, registry=registry)
    for form in (data, bytearray(data), memoryview(data)):
        result = decode(form, registry=registry)
    assert encode(result, registry=registry) == data
    return result


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=40)
@given(data=st.data())
def test_a_value_of_each_type_comes_back_exactly(name: str, data: st.DataObject) -> None:
    value = data.draw(ALL[name])
    assert same(value, back(value))


def test_a_tensor_is_stored_with_what_torch_still_has_to_do_to_it() -> None:
    """Conjugating and negating are only noted on the tensor until somebody reads it."""
    number = torch.tensor([1 + 2j, 3 - 4j])
    for tensor in (number.conj(), number.conj().imag):
        assert back(tensor).tolist() == tensor.tolist()
    assert number.conj().is_conj()
    assert number.conj().imag.is_neg()


@settings(max_examples=150)
@given(anything)
def test_nested_values_come_back_exactly(value: Any) -> None:
    assert same(value, back(value))
