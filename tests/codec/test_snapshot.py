"""A snapshot is the value at this moment, encoded but for the data of its device tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synchist.codec import Registry, decode, encode
from synchist.codec._snapshot import Snapshot, snapshot
from synchist.errors import TooLargeError, UnsupportedTypeError

from .arrays import arrays, tensors
from .values import registry, values


def deferred(value: Any) -> Snapshot:
    """As if every tensor were on a device."""
    snap = snapshot(value, registry=registry, defer=lambda tensor: True)
    assert isinstance(snap, Snapshot)
    return snap


@settings(max_examples=100)
@given(values(arrays(), tensors()), tensors(), st.booleans())
def test_a_finished_snapshot_is_what_encode_gives(
    value: Any, tensor: torch.Tensor, everything: bool
) -> None:
    value = [value, tensor]
    snap = snapshot(value, registry=registry, defer=lambda t: everything or t.dtype is tensor.dtype)
    assert isinstance(snap, Snapshot)
    data = snap.finish([tensor.cpu() for tensor in snap.tensors])
    assert data == encode(value, registry=registry)
    assert len(data) == snap.nbytes
    assert snap.finish(snap.tensors) == data


@pytest.mark.parametrize(
    "value", [1.5, [1, (2,)], {"a": np.zeros(3)}, torch.ones(2), [torch.ones(())]]
)
def test_where_nothing_has_to_wait_for_a_device_the_bytes_come_at_once(value: Any) -> None:
    assert snapshot(value) == encode(value)


def test_later_changes_show_nowhere() -> None:
    inner, array, tensor = [1], np.zeros(3), torch.zeros(3)
    value = {"list": inner, "array": array, "tensor": tensor, "bytes": bytearray(b"abc")}
    before = encode(value)
    snap = deferred(value)
    inner.append(2)
    array += 1
    tensor += 1
    value["bytes"][0] = 0  # type: ignore[index]
    value.clear()
    assert snap.finish(snap.tensors) == before


def test_the_tensors_are_dense_detached_copies_in_order() -> None:
    whole = torch.arange(100.0, requires_grad=True)
    view = whole[::10]
    complex_view = torch.ones(3, dtype=torch.complex64).conj()
    snap = deferred([view, {"k": (complex_view, torch.ones(2, 3).T)}])
    assert [tuple(tensor.shape) for tensor in snap.tensors] == [(10,), (3,), (3, 2)]
    for tensor in snap.tensors:
        assert tensor.is_contiguous()
        assert not tensor.requires_grad
        assert not tensor.is_conj()
        # A view would keep all of its base in memory.
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


def test_tensors_moved_together_come_out_in_their_places() -> None:
    """One transfer for all: the tensors of several snapshots as slices of one."""
    parts: list[Any] = [{"a": torch.ones(2, 3) * n, "b": [torch.zeros(n)]} for n in range(4)]
    snaps = [deferred(value) for value in parts]
    moved = torch.cat([t.reshape(-1) for snap in snaps for t in snap.tensors]).cpu()
    offset = 0
    for value, snap in zip(parts, snaps, strict=True):
        cpu = []
        for tensor in snap.tensors:
            cpu.append(moved[offset : offset + tensor.numel()].reshape(tensor.shape))
            offset += tensor.numel()
        assert snap.finish(cpu) == encode(value)


def test_tensors_inside_what_a_registered_encoder_returns_are_deferred_too() -> None:
    class Box:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor

    boxes = Registry()
    boxes.register(Box, "tests.Box/1", lambda box: (box.tensor,), lambda stored: Box(*stored))
    snap = snapshot(Box(torch.ones(3)), registry=boxes, defer=lambda tensor: True)
    assert isinstance(snap, Snapshot)
    back = decode(snap.finish(snap.tensors), registry=boxes)
    assert torch.equal(back.tensor, torch.ones(3))


def test_tensors_in_a_set_are_read_at_once_for_their_order() -> None:
    value = {torch.ones(1), torch.zeros(1)}
    assert snapshot(value, defer=lambda tensor: True) == encode(value)


@pytest.mark.parametrize("value", [object(), [torch.ones(2), object()], torch.ones(2).to_sparse()])
def test_a_snapshot_refuses_what_encode_refuses(value: Any) -> None:
    with pytest.raises(UnsupportedTypeError) as expected:
        encode(value)
    with pytest.raises(UnsupportedTypeError) as caught:
        snapshot(value, defer=lambda tensor: True)
    assert str(caught.value) == str(expected.value)
    assert caught.value.path == expected.value.path


def test_a_tensor_that_is_too_large_is_refused_before_it_is_copied() -> None:
    huge = torch.zeros(1, dtype=torch.uint8).expand(2**32)
    with pytest.raises(TooLargeError, match="4294967295 bytes"):
        encode([huge])
    with pytest.raises(TooLargeError, match="4294967295 bytes"):
        snapshot([huge], defer=lambda tensor: True)


@pytest.mark.parametrize(
    "arrived",
    [[], [torch.ones(2)], [torch.ones(3, dtype=torch.float64)], [torch.ones(3, device="meta")]],
)
def test_tensors_that_do_not_match_are_an_error(arrived: list[torch.Tensor]) -> None:
    with pytest.raises(ValueError, match=r"expected a CPU tensor|shorter"):
        deferred(torch.ones(3)).finish(arrived)


@pytest.mark.gpu
def test_a_snapshot_of_cuda_tensors_waits_for_nothing() -> None:
    mode: Any = torch.cuda.set_sync_debug_mode
    value = {"a": torch.ones(3, device="cuda"), "b": [torch.ones((), device="cuda") > 0]}
    mode("error")
    try:
        snap = snapshot(value)
    finally:
        mode("default")
    assert isinstance(snap, Snapshot)
    assert {tensor.device.type for tensor in snap.tensors} == {"cuda"}
    assert snap.finish([tensor.cpu() for tensor in snap.tensors]) == encode(value)
    assert decode(encode(value))["a"].device.type == "cpu"
