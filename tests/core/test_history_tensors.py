"""Tensors: cloned where they are when recorded, moved to the host together when they are needed."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch

from synchist import History, MemoryStore, SyncTimeoutError
from synchist.deadline import Deadline
from synchist.model.deferred import Tray

REAL = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int64,
    torch.int8,
    torch.uint8,
    torch.bool,
]


def opened() -> History:
    h = History()
    h.new_epoch()
    return h


class Forbidden:
    """Makes whatever waits for a device, or moves data to the host, fail."""

    METHODS = ("item", "tolist", "cpu", "numpy", "to", "__float__", "__bool__", "__int__")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __enter__(self) -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            raise AssertionError("recording waited for the device")

        self._context = self._patch.context()
        patch = self._context.__enter__()
        for name in self.METHODS:
            patch.setattr(torch.Tensor, name, refuse)

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)


def test_recording_a_scalar_tensor_reads_nothing_from_its_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    h = opened()
    with Forbidden(monkeypatch):
        for number in range(2000):
            h.new_batch(loss=torch.ones(()) * number)
            h.record_batch("acc", torch.ones(()))
        h.record("total", torch.ones(()))
        h.new_epoch(lr=torch.ones(()))
    assert h[0, "batches", :, "loss"] == [float(number) for number in range(2000)]
    assert (h[0, "total"], h[1, "lr"]) == (1.0, 1.0)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_a_real_or_bool_scalar_comes_back_as_a_python_scalar(dtype: torch.dtype) -> None:
    h = opened()
    value = torch.ones((), dtype=dtype)
    h.new_batch(v=value)
    expected = value.item()
    assert h[-1, "batches", -1, "v"] == expected
    assert type(h[-1, "batches", -1, "v"]) is type(expected)


def test_any_other_tensor_comes_back_as_a_cpu_tensor() -> None:
    h = opened()
    for value in (torch.ones(1), torch.zeros(0, 3), torch.tensor(1 + 2j), torch.ones(2, 3).T):
        h.record("v", value)
        found = h[-1, "v"]
        assert torch.equal(found, value)
        assert (found.dtype, found.shape, found.device.type) == (value.dtype, value.shape, "cpu")


def test_the_value_of_the_moment_is_kept_whatever_happens_to_the_tensor() -> None:
    h = opened()
    running = torch.zeros((), requires_grad=False)
    whole = torch.zeros(3)
    for _ in range(3):
        running += 1
        whole += 1
        h.new_batch(scalar=running, vector=whole, nested=[whole, {"x": running}])
    running.fill_(9)
    whole.fill_(9)
    assert h[-1, "batches", :, "scalar"] == [1.0, 2.0, 3.0]
    assert [v.tolist() for v in h[-1, "batches", :, "vector"]] == [[n] * 3 for n in (1, 2, 3)]
    nested = h[-1, "batches", 0, "nested"]
    assert nested[0].tolist() == [1.0, 1.0, 1.0]
    assert nested[1]["x"].item() == 1.0


def test_a_read_between_two_writes_changes_nothing() -> None:
    kept, read = opened(), opened()
    for number in range(5):
        for h in (kept, read):
            h.new_batch(loss=torch.tensor(float(number)))
        read[-1, "batches", -1, "loss"]
        for h in (kept, read):
            h.record_batch("late", torch.tensor(number))
    assert kept == read
    assert kept.to_list() == read.to_list()


def test_gradients_are_left_behind() -> None:
    h = opened()
    weight = torch.ones(2, requires_grad=True)
    h.new_batch(loss=(weight * 3).sum(), weight=weight * 1)
    assert h[-1, "batches", -1, "loss"] == 6.0
    assert not h[-1, "batches", -1, "weight"].requires_grad


def test_pending_tensors_are_in_a_pickle_and_in_the_local_view() -> None:
    h = History(store=MemoryStore(), rank=0, world_size=2)
    h.new_epoch(v=torch.tensor(2.5))
    h.new_batch(loss=torch.tensor(0.5))
    copy = pickle.loads(pickle.dumps(h))
    for history in (h, copy):
        assert history.local.to_list() == [{"batches": [{"loss": 0.5}], "v": 2.5}]


def test_a_value_that_was_overwritten_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    h = opened()
    h.new_batch()
    for number in range(10_000):
        h.record_batch("loss", torch.tensor(float(number)))
    sizes = []
    cpu = torch.Tensor.cpu

    def counted(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.numel())
        return cpu(tensor)

    monkeypatch.setattr(torch.Tensor, "cpu", counted)
    assert h[-1, "batches", -1, "loss"] == 9999.0
    assert sizes == [1]


def test_one_transfer_for_each_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    h = opened()
    for number in range(3000):
        h.new_batch(a=torch.tensor(float(number)), b=torch.tensor(number), c=torch.tensor(True))
    moved = []
    cpu = torch.Tensor.cpu

    def counted(tensor: torch.Tensor) -> torch.Tensor:
        moved.append((tensor.dtype, tensor.numel()))
        return cpu(tensor)

    monkeypatch.setattr(torch.Tensor, "cpu", counted)
    assert h[-1, "batches", :, "b"] == list(range(3000))
    expected = [(torch.float32, 3000), (torch.int64, 3000), (torch.bool, 3000)]
    assert sorted(moved, key=str) == sorted(expected, key=str)


class SlowEvent:
    """An event of a stream on which a collective hangs."""

    def query(self) -> bool:
        return False


def test_a_device_that_hangs_ends_the_call_by_its_deadline_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from synchist.model import deferred

    tray = Tray()
    kept = tray.capture(torch.tensor(3.5))
    send = deferred._Group.send

    def hang(group: Any, module: Any) -> None:
        send(group, module)
        group._event = SlowEvent()

    monkeypatch.setattr(deferred._Group, "send", hang)
    with pytest.raises(SyncTimeoutError, match="own device"):
        tray.fetch(Deadline(0.05))
    monkeypatch.setattr(deferred._Group, "send", send)
    assert tray.fetch(Deadline(10))
    assert kept.result == 3.5


@pytest.mark.gpu
def test_recording_gpu_tensors_never_waits_for_the_gpu() -> None:
    h = opened()
    loss = torch.ones((), device="cuda")
    vector = torch.arange(4.0, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for number in range(3000):
            loss = loss + 1
            h.new_batch(loss=loss, batch_size=number)
            h.record_batch("vector", vector)
            vector += 1
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert h[-1, "batches", :, "loss"] == [float(number + 2) for number in range(3000)]
    found = h[-1, "batches", 7, "vector"]
    assert found.device.type == "cpu"
    assert found.tolist() == [7.0, 8.0, 9.0, 10.0]


@pytest.mark.gpu
def test_tensors_of_several_streams_arrive_whole() -> None:
    h = opened()
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch left it untyped
    base = torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()
    for number in range(50):
        with torch.cuda.stream(side):
            value = (base * number).sum()
            h.new_batch(side=value, nested=[value])
        h.record_batch("main", (base * 2).sum())
    assert h[-1, "batches", :, "side"] == [float(number << 20) for number in range(50)]
    assert h[-1, "batches", :, "main"] == [float(2 << 20)] * 50
    assert h[-1, "batches", -1, "nested"][0].item() == float(49 << 20)
