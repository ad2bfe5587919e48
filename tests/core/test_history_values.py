"""What goes in comes out: copied at the moment of recording, exact in type, shape and bits."""

from __future__ import annotations

import copy
import math
import pickle
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synchist import History
from synchist.codec import encode

Sync = Callable[[Sequence[History]], None]
World = Callable[..., list[History]]


def same(left: Any, right: Any) -> bool:
    """Equal in type and bits, NaN payloads and the order of names included."""
    return type(left) is type(right) and encode(left) == encode(right)


# -- copied when recorded --------------------------------------------------------------------------


def _grow(value: list[Any]) -> None:
    value.append("later")


def _fill(value: Any) -> None:
    value[...] = 7


def _deep(value: dict[str, Any]) -> None:
    value["more"] = 1
    value["inner"][0].append(9)


def _in_place(value: torch.Tensor) -> None:
    with torch.no_grad():
        value += 1


def _first_byte(value: bytearray) -> None:
    value[0] = 0


def _of_list(value: Any) -> None:
    _in_place(value[1]["x"])


MUTABLES: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "list": (lambda: [1, 2.0], _grow),
    "dict of lists": (lambda: {"inner": ([1],)}, _deep),
    "bytearray": (lambda: bytearray(b"abc"), _first_byte),
    "array": (lambda: np.arange(6.0).reshape(2, 3), _fill),
    "view of an array": (lambda: np.arange(12)[::2], _fill),
    "0-d array": (lambda: np.array(1.5), _fill),
    "tensor": (lambda: torch.arange(6.0).reshape(2, 3), _in_place),
    "view of a tensor": (lambda: torch.arange(12.0).reshape(3, 4).T, _in_place),
    "0-d tensor": (lambda: torch.tensor(2.5), _in_place),
    "0-d int tensor": (lambda: torch.tensor(3), _in_place),
    "element of a tensor": (lambda: torch.arange(4.0)[2], _in_place),
    "0-d parameter": (lambda: torch.nn.Parameter(torch.tensor(1.0)), _in_place),
    "tensor in a list": (lambda: [0, {"x": torch.ones(2)}], _of_list),
    "0-d tensor in a list": (lambda: [0, {"x": torch.tensor(1.0)}], _of_list),
}


def written(h: History, value: Any) -> None:
    """Record `value` under every kind of name."""
    h.new_epoch(opened=value)
    h.record("epoch", value, weight=2)
    h.record({"mapped": value})
    h.new_batch(opened=value)
    h.record_batch("batch", value)
    h.new_batch({"mapped": value})
    h.attributes["run"] = value


def read(view: Any) -> list[Any]:
    return [
        view[-1, "opened"],
        view[-1, "epoch"],
        view[-1, "mapped"],
        view[-1, "batches", 0, "opened"],
        view[-1, "batches", 0, "batch"],
        view[-1, "batches", :, "mapped"][0],
        view.attributes["run"],
    ]


@pytest.mark.parametrize(("make", "change"), MUTABLES.values(), ids=MUTABLES)
def test_a_value_changed_after_recording_is_stored_as_it_was(
    make: Callable[[], Any], change: Callable[[Any], None]
) -> None:
    h, kept = History(), History()
    value = make()
    written(h, value)
    change(value)
    written(kept, make())
    assert h.digest() == kept.digest()
    assert all(same(one, other) for one, other in zip(read(h), read(kept), strict=True))


@pytest.mark.parametrize(("make", "change"), MUTABLES.values(), ids=MUTABLES)
def test_the_same_on_every_rank_when_it_was_shared(
    make: Callable[[], Any], change: Callable[[Any], None], world: World, sync_all: Sync
) -> None:
    histories = world(2, reduce=dict.fromkeys(["opened", "epoch", "mapped"], "first"))
    value = make()
    written(histories[0], value)
    pending = read(histories[0].local)
    change(value)
    sync_all(histories)
    for view in (histories[0], histories[1], histories[1].ranks[0], histories[0].local):
        assert all(same(one, other) for one, other in zip(read(view), pending, strict=True))


# -- tensors ---------------------------------------------------------------------------------------

SCALARS = [
    (torch.tensor(0.1), float(np.float32(0.1))),
    (torch.tensor(0.1, dtype=torch.float64), 0.1),
    (torch.tensor(0.1, dtype=torch.bfloat16), 0.10009765625),
    (torch.tensor(0.1, dtype=torch.float16), float(np.float16(0.1))),
    (torch.tensor(2**53 + 1), 2**53 + 1),
    (torch.tensor(200, dtype=torch.uint8), 200),
    (torch.tensor(-3, dtype=torch.int8), -3),
    (torch.tensor(True), True),
    (torch.tensor(math.inf), math.inf),
    (torch.tensor(-0.0), -0.0),
    (torch.tensor(1.5, requires_grad=True), 1.5),
    (torch.nn.Parameter(torch.tensor(2.5)), 2.5),
    (torch.arange(5)[3], 3),
]


@pytest.mark.parametrize(("tensor", "scalar"), SCALARS, ids=[repr(case[0]) for case in SCALARS])
def test_a_0d_real_or_bool_tensor_comes_back_as_a_python_scalar(
    tensor: Any, scalar: Any, world: World, sync_all: Sync
) -> None:
    alone, histories = History(), world(2, reduce={"v": "first"})
    for h in (alone, *histories):
        h.new_epoch(v=tensor)
        h.new_batch(v=tensor)
    assert same(histories[0].local[-1, "v"], scalar)
    sync_all(histories)
    for view in (alone, alone.local, histories[0], histories[1], histories[1].ranks[0]):
        assert same(view[-1, "v"], scalar)
        assert same(view[-1, "batches", 0, "v"], scalar)
        assert same(view[-1, "batches", :, "v"][0], scalar)
    assert same(copy.deepcopy(alone)[-1, "v"], scalar)


OTHERS = [
    torch.ones(1),
    torch.zeros(0, 3),
    torch.arange(6).reshape(2, 3).T,
    torch.tensor([0.1], dtype=torch.bfloat16),
    torch.tensor([True, False]),
    torch.tensor(1 + 2j),
    torch.ones(3).expand(2, 3),
]


@pytest.mark.parametrize("tensor", OTHERS, ids=[f"{t.dtype} {list(t.shape)}" for t in OTHERS])
def test_any_other_tensor_comes_back_as_a_cpu_tensor_of_its_dtype_and_shape(
    tensor: torch.Tensor, world: World, sync_all: Sync
) -> None:
    histories = world(2)
    histories[0].new_epoch(v=tensor, inside=[tensor])
    pending = histories[0].local[-1, "v"]
    sync_all(histories)
    for found in (pending, histories[1][-1, "v"], histories[1][-1, "inside"][0]):
        assert type(found) is torch.Tensor
        assert found.device.type == "cpu"
        assert found.dtype == tensor.dtype
        assert found.shape == tensor.shape
        assert torch.equal(found, tensor)
        assert not found.requires_grad


def test_a_0d_tensor_inside_a_container_stays_a_tensor() -> None:
    h = History()
    h.new_epoch(v=[torch.tensor(1.5)])
    (found,) = h[-1, "v"]
    assert type(found) is torch.Tensor
    assert found.shape == ()


@settings(max_examples=60)
@given(steps=st.lists(st.sampled_from("rwspb"), max_size=12))
def test_tensors_come_back_the_same_whatever_happened_in_between(
    steps: list[str], world: World, sync_all: Sync
) -> None:
    """r: read, w: overwrite, s: sync, p: pickle a copy, b: open another batch."""
    histories = world(2)
    h = histories[0]
    running = torch.tensor(0.0)
    expected: list[float] = []
    h.new_epoch()

    def record() -> None:
        nonlocal running
        running += 0.1
        h.record_batch("loss", running)
        h.record_batch("all", running.expand(2))
        expected[-1:] = [running.item()]

    def open_batch() -> None:
        h.new_batch()
        expected.append(math.nan)
        record()

    open_batch()
    for step in steps:
        if step == "r":
            assert h.local[-1, "batches", -1, "loss"] == expected[-1]
        elif step == "w":
            record()
        elif step == "s":
            sync_all(histories)
        elif step == "p":
            assert pickle.loads(pickle.dumps(h)).local[-1, "batches", :, "loss"] == expected
        else:
            open_batch()
    sync_all(histories)
    for other in histories:
        assert encode(other[-1, "batches", :, "loss"]) == encode(expected)
        found = other[-1, "batches", :, "all"]
        assert [tensor.tolist() for tensor in found] == [[value] * 2 for value in expected]


@pytest.mark.parametrize("read_every", [0, 700])
def test_thousands_of_pending_tensors_keep_their_values_and_order(read_every: int) -> None:
    h = History(rank=0, world_size=2)
    h.new_epoch()
    running = torch.zeros((), dtype=torch.float64)
    expected: list[Any] = []
    for step in range(3000):
        running += 0.5
        value: Any = running if step % 3 else torch.tensor(step)
        h.new_batch(loss=value)
        expected.append(value.item())
        if read_every and step % read_every == 0:
            assert h.local[-1, "batches", -1, "loss"] == expected[-1]
    assert encode(h.local[-1, "batches", :, "loss"]) == encode(expected)


def test_recording_a_tensor_keeps_no_reference_to_it_or_its_graph() -> None:
    import weakref

    h = History(rank=0, world_size=2)
    h.new_epoch()
    weight = torch.ones(3, requires_grad=True)
    loss = (weight * 2).sum()
    h.new_batch(loss=loss, grad=[weight])
    graph = weakref.ref(loss)
    del loss
    assert graph() is None


# -- exact types -----------------------------------------------------------------------------------

BITS = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
EXACT = st.one_of(
    BITS,
    st.floats(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, True, False, None, 0.0, -0.0, 1.0, 2**63, -(2**63), 2**63 - 1]),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.tuples(st.integers(), st.floats()),
    st.lists(st.floats(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.booleans(), max_size=2),
)
NUMPY = st.sampled_from(
    [
        np.float32(0.1),
        np.float64(0.1),
        np.int64(3),
        np.bool_(True),
        np.array(2.5),
        np.array([[1, 2]], dtype=np.int16),
        np.array([np.nan, -0.0]),
        np.array(["a", "bc"]),
        np.zeros((0, 2)),
    ]
)
VALUES = st.one_of(EXACT, NUMPY)


@settings(max_examples=300)
@given(
    st.lists(st.one_of(st.none(), st.lists(VALUES, min_size=1, max_size=2)), max_size=12),
    st.lists(VALUES, max_size=3),
    st.lists(st.integers(0, 12), max_size=3),
)
def test_columns_keep_every_value_exact_whatever_stands_beside_it(
    world: World, sync_all: Sync, rows: list[list[Any] | None], values: list[Any], syncs: list[int]
) -> None:
    """Rows hold nothing, a value, or a value that is overwritten by another."""
    histories = world(2)
    h = histories[1]
    alone = History()
    for history in (h, alone):
        history.new_epoch()
        for number, value in enumerate(values):
            history.record(f"v{number}", value)
    for number, row in enumerate(rows):
        for history in (h, alone):
            history.new_batch()
            for value in row or ():
                history.record_batch("x", value)
        if number in syncs:
            sync_all(histories)
    column = [row[-1] for row in rows if row is not None]
    sync_all(histories)
    for view in (*histories, histories[0].ranks[1], alone, h.local, alone.local):
        found = view[-1, "batches", :, "x"] if column else []
        assert len(found) == len(column)
        assert all(same(one, other) for one, other in zip(found, column, strict=True))
        for number, row in enumerate(rows):
            shown = view[-1, "batches", number]
            assert list(shown) == ([] if row is None else ["x"])
            assert row is None or same(shown["x"], row[-1])
        for number, value in enumerate(values):
            assert same(view[-1, f"v{number}"], value)
    assert h.digest() == histories[0].digest()


def test_a_nan_keeps_its_payload() -> None:
    payload = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000ABCDEF))[0]
    h = History()
    h.new_epoch(v=payload)
    h.new_batch(v=payload)
    for found in (h[-1, "v"], h[-1, "batches", 0, "v"], h[-1, "batches", :, "v"][0]):
        assert struct.pack("<d", found) == struct.pack("<d", payload)


@pytest.mark.parametrize("method", ["new_epoch", "new_batch", "record", "record_batch"])
def test_every_writer_takes_one_mapping_with_names_that_are_no_identifiers(method: str) -> None:
    h = History()
    h.new_epoch()
    h.new_batch()
    getattr(h, method)({"train/loss": 0.5, "a b": 2, "": None})
    found = h[-1, "batches", -1] if "batch" in method else h[-1]
    found.pop("batches", None)
    assert found == {"train/loss": 0.5, "a b": 2, "": None}


@pytest.mark.parametrize("value", [0.5, 1, torch.tensor(0.5)])
@pytest.mark.parametrize("method", ["new_epoch", "new_batch", "record", "record_batch"])
def test_a_mapping_that_is_filled_anew_for_every_call_is_not_kept(method: str, value: Any) -> None:
    h, fresh = History(), History()
    reused: dict[str, Any] = {}
    for history in (h, fresh):
        history.new_epoch()
        history.new_batch()
        for number in range(3):
            reused["x"] = value * number
            getattr(history, method)(reused if history is h else dict(reused))
            reused["x"] = reused["y"] = -1.0
            if method == "new_epoch":
                history.new_batch()
            history.record_batch("z", 1.0)
            assert set(reused) == {"x", "y"}
            del reused["y"]
    assert h.to_list() == fresh.to_list()


@pytest.mark.parametrize("method", ["new_epoch", "new_batch"])
def test_opening_takes_a_mapping_and_names_together_and_the_names_win(method: str) -> None:
    h = History()
    h.new_epoch()
    getattr(h, method)({"a": 1, "b": 2}, b=3, c=4)
    found = h[-1, "batches", -1] if "batch" in method else h[-1]
    found.pop("batches", None)
    assert found == {"a": 1, "b": 3, "c": 4}


def test_names_called_value_or_weight_or_values_can_be_recorded() -> None:
    h = History()
    h.new_epoch(value=1, values=2, name=3, self_=4)
    h.new_batch(value=1.0, values=2.0, name=3.0)
    h.record({"weight": 5})
    assert h[-1] == {
        "batches": [{"value": 1.0, "values": 2.0, "name": 3.0}],
        "value": 1,
        "values": 2,
        "name": 3,
        "self_": 4,
        "weight": 5,
    }


def test_a_name_of_a_subclass_of_str_is_the_same_name() -> None:
    h, same_ = History(), History()
    for history, kind in ((h, np.str_), (same_, str)):
        for _ in range(2):
            history.new_epoch({kind("lr"): 0.1})
            history.new_batch({kind("loss"): 1.0})
            history.record_batch(kind("loss"), 2.0)
            history.new_batch({kind("loss"): 3.0})
            history.new_batch()
            history.record_batch(kind("loss"), 4.0)
            history.record(kind("v"), 1)
        history.attributes[kind("run")] = 1
    assert h.digest() == same_.digest()
    assert encode(h.to_list()) == encode(same_.to_list())
    assert encode(dict(h.attributes)) == encode(dict(same_.attributes))


@pytest.mark.parametrize("name", ["é", "\ud800", "a\0b", "x" * 1000, "batches ", "Batches"])
def test_any_other_string_is_a_name(name: str, world: World, sync_all: Sync) -> None:
    histories = world(2)
    histories[1].new_epoch({name: 1})
    histories[1].new_batch({name: 1.5})
    histories[1].attributes[name] = 2
    sync_all(histories)
    for h in histories:
        assert h.to_list() == [{"batches": [{name: 1.5}], name: 1}]
        assert dict(h.attributes) == {name: 2}
    assert histories[0].digest() == histories[1].digest()


def test_what_a_buffer_holds_when_it_is_recorded_counts() -> None:
    buffer = array("d", [1.0, 2.0])
    h = History()
    h.new_epoch(v=memoryview(buffer).tolist(), w=np.frombuffer(buffer))
    buffer[0] = 9.0
    assert h[-1, "v"] == [1.0, 2.0]
    assert h[-1, "w"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("rows", [1023, 1024, 1025, 1026, 3000])
@pytest.mark.parametrize("sync_at", [None, 500, 1024])
def test_thousands_of_rows_between_two_syncs_keep_their_places(
    rows: int, sync_at: int | None, world: World, sync_all: Sync
) -> None:
    """They are packed while they are recorded; with gaps, other types and late values in them."""
    histories = world(2)
    h = histories[1]
    h.new_epoch()
    expected: list[dict[str, Any]] = []
    for row in range(rows):
        h.new_batch(loss=row + 0.5, **({"n": row} if row % 3 else {}))
        expected.append({"loss": row + 0.5, **({"n": row} if row % 3 else {})})
        if row == sync_at:
            sync_all(histories)
        if row % 500 == 0 or 1022 <= row <= 1026:
            h.record_batch("late", str(row))
            expected[-1]["late"] = str(row)
    h.record("rows", rows)
    assert h.local.to_list() == [{"batches": expected, "rows": rows}]
    sync_all(histories)
    for other in histories:
        assert other.to_list() == [{"batches": expected, "rows": rows}]
        assert other[-1, "batches", :, "loss"] == [row["loss"] for row in expected]
        assert other[-1, "batches", :, "n"] == [row["n"] for row in expected if "n" in row]
