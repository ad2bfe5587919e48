"""The digest: equal for equal histories, however they came about, and different for any change."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synchist import History

Sync = Callable[[Sequence[History]], None]
World = Callable[..., list[History]]


def base() -> History:
    h = History()
    h.new_epoch(lr=0.1)
    h.new_batch(loss=1.0, n=32)
    h.new_batch(loss=2.0, n=32)
    h.record("valid_loss", 0.5, weight=10)
    h.new_epoch(lr=0.1)
    h.new_batch(loss=3.0, n=32)
    h.attributes["seed"] = 1
    return h


def changed(change: Callable[[History], None]) -> History:
    h = base()
    change(h)
    return h


def _attribute(name: str, value: Any) -> Callable[[History], None]:
    def change(h: History) -> None:
        h.attributes[name] = value

    return change


def _without(step: str) -> History:
    h = History()
    h.new_epoch(lr=0.1)
    h.new_batch(loss=1.0, n=32)
    if step != "row":
        h.new_batch(loss=2.0, n=32)
    if step != "value":
        h.record("valid_loss", 0.5, weight=None if step == "weight" else 10)
    h.new_epoch(lr=0.1)
    if step != "last row":
        h.new_batch(loss=3.0, n=32)
    if step != "attribute":
        h.attributes["seed"] = 1
    return h


CHANGES: dict[str, Callable[[], History]] = {
    "an epoch more": lambda: changed(lambda h: h.new_epoch()),
    "an empty row more": lambda: changed(lambda h: h.new_batch()),
    "an epoch value more": lambda: changed(lambda h: h.record("x", None)),
    "a batch value more": lambda: changed(lambda h: h.record_batch("x", None)),
    "an attribute more": lambda: changed(_attribute("x", None)),
    "another epoch value": lambda: changed(lambda h: h.record("lr", 0.2)),
    "another batch value": lambda: changed(lambda h: h.record_batch("loss", 3.5)),
    "another attribute": lambda: changed(_attribute("seed", 2)),
    "int for float": lambda: changed(lambda h: h.record_batch("loss", 3)),
    "float for int": lambda: changed(lambda h: h.record_batch("n", 32.0)),
    "bool for int": lambda: changed(_attribute("seed", True)),
    "numpy scalar for float": lambda: changed(lambda h: h.record_batch("loss", np.float64(3.0))),
    "the next float": lambda: changed(lambda h: h.record_batch("loss", math.nextafter(3, 4))),
    "a weight more": lambda: changed(lambda h: h.record("lr", 0.1, weight=1)),
    "without a row": lambda: _without("row"),
    "without the last row": lambda: _without("last row"),
    "without an epoch value": lambda: _without("value"),
    "without a weight": lambda: _without("weight"),
    "without an attribute": lambda: _without("attribute"),
}


def test_it_is_a_sha256_in_hex() -> None:
    assert re.fullmatch("[0-9a-f]{64}", History().digest())


@pytest.mark.parametrize("make", CHANGES.values(), ids=CHANGES)
def test_any_change_changes_it(make: Callable[[], History]) -> None:
    assert base().digest() == base().digest() == _without("nothing").digest()
    assert make().digest() != base().digest()
    assert make() != base()
    assert make().digest() == make().digest()


def test_no_two_of_the_changes_collide() -> None:
    digests = {make().digest() for make in CHANGES.values()}
    assert len(digests) == len(CHANGES)


PAIRS: list[tuple[Any, Any]] = [
    (0.0, -0.0),
    (1, 1.0),
    (1, True),
    (0, False),
    (0, None),
    ("1", 1),
    ("a", b"a"),
    ((1, 2), [1, 2]),
    (b"a", bytearray(b"a")),
    (np.float32(1), 1.0),
    (np.array([1.0]), [1.0]),
    (np.array([1.0]), torch.tensor([1.0], dtype=torch.float64)),
    (np.zeros((2, 1)), np.zeros((1, 2))),
    (np.zeros(2, "f4"), np.zeros(2, "f8")),
    ({"a": 1, "b": 2}, {"a": 1, "b": 3}),
    (
        math.nan,
        struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0],
    ),
    ("", None),
    ([], ()),
    (2**63, float(2**63)),
]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=map(repr, PAIRS))
@pytest.mark.parametrize("beside", [None, 1.5, 7], ids=["alone", "beside floats", "beside ints"])
def test_values_that_differ_in_type_or_bits_differ_in_digest(
    one: Any, other: Any, beside: Any
) -> None:
    def digest(scope: str, value: Any) -> str:
        h = History()
        h.new_epoch()
        if beside is not None:
            h.new_batch(x=beside)
        h.new_batch()
        if scope == "batch":
            h.record_batch("x", value)
        elif scope == "epoch":
            h.record("x", value)
        else:
            h.attributes["x"] = value
        return h.digest()

    digests = {digest(s, v) for s in ("batch", "epoch", "attribute") for v in (one, other)}
    assert len(digests) == 6
    for scope in ("batch", "epoch", "attribute"):
        assert digest(scope, one) == digest(scope, one)


def test_the_same_value_at_another_place_is_another_history(world: World, sync_all: Sync) -> None:
    def digest(rank: int, epoch: int, batch: int, name: str) -> str:
        histories = world(2)
        for r, h in enumerate(histories):
            for e in range(2):
                h.new_epoch()
                for b in range(2):
                    h.new_batch()
                    if (r, e, b) == (rank, epoch, batch):
                        h.record_batch(name, 1.0)
        sync_all(histories)
        assert histories[0].digest() == histories[1].digest()
        return histories[0].digest()

    places = [(r, e, b, n) for r in (0, 1) for e in (0, 1) for b in (0, 1) for n in "xy"]
    assert len({digest(*place) for place in places}) == len(places)


def test_names_with_the_same_text_together_are_not_confused() -> None:
    digests = set()
    for names in (["ab", "c"], ["a", "bc"], ["abc"], ["a", "b", "c"]):
        h = History()
        h.new_epoch(dict.fromkeys(names, 1))
        digests.add(h.digest())
    assert len(digests) == 4


def test_the_order_in_which_names_were_recorded_does_not_count() -> None:
    one, other = History(), History()
    one.new_epoch({"a": 1, "b": 2})
    one.new_batch({"x": 1.0, "y": 2})
    other.new_epoch({"b": 2, "a": 1})
    other.new_batch({"y": 2, "x": 1.0})
    assert one.digest() == other.digest()
    assert one == other


def test_overwriting_with_the_first_value_again_changes_nothing() -> None:
    h = base()
    before = h.digest()
    h.record_batch("loss", "text")
    assert h.digest() != before
    h.record_batch("loss", 3.0)
    assert h.digest() == before


def test_reduce_rules_names_and_timeouts_are_no_part_of_it() -> None:
    one = History(name="one", timeout=3, reduce={"lr": "mean"}, job="x")
    one.new_epoch(lr=0.1)
    other = History()
    other.new_epoch(lr=0.1)
    assert one.digest() == other.digest()
    assert one == other


def test_a_history_equals_itself_and_nothing_of_another_type() -> None:
    h = base()
    assert h == h
    assert h != [1]
    assert h != h.to_list()
    with pytest.raises(TypeError):
        hash(h)


WRITES = st.lists(
    st.tuples(
        st.sampled_from(["epoch", "batch", "record", "record_batch", "attribute"]),
        st.sampled_from("ab"),
        st.sampled_from([0.5, 1.5, 1, True, None, "text", [1]]),
    ),
    max_size=20,
)


def write(h: History, how: str, name: str, value: Any) -> bool:
    if how == "epoch":
        h.new_epoch({name: value})
    elif how == "attribute":
        h.attributes[name] = value
    elif not h.local:
        return False
    elif how == "record":
        h.record(name, value)
    elif how == "batch":
        h.new_batch({name: value})
    elif h.local[-1, "batches"]:
        h.record_batch(name, value)
    else:
        return False
    return True


@settings(max_examples=200)
@given(WRITES, st.data())
def test_the_digest_after_every_write_is_that_of_a_history_built_at_once(
    writes: list[Any], data: st.DataObject
) -> None:
    """What was digested before is remembered; that must not show."""
    h = History()
    done: list[Any] = []
    for step in writes:
        if write(h, *step):
            done.append(step)
        if data.draw(st.booleans()):
            fresh = History()
            for again in done:
                write(fresh, *again)
            assert h.digest() == fresh.digest()


def test_the_digest_is_that_of_the_agreed_view_whatever_is_pending(
    world: World, sync_all: Sync
) -> None:
    histories = world(2)
    empty = History().digest()
    histories[0].new_epoch(a=1)
    assert histories[0].digest() == empty
    sync_all(histories)
    agreed = histories[1].digest()
    assert agreed != empty
    histories[0].record("a", 2)
    histories[0].attributes["b"] = 3
    assert histories[0].digest() == agreed == histories[1].digest()


def test_attributes_of_different_ranks_are_different_things(world: World, sync_all: Sync) -> None:
    digests = set()
    for rank in (0, 1):
        histories = world(2)
        histories[rank].attributes["seed"] = 1
        sync_all(histories)
        digests.add(histories[0].digest())
        assert histories[1 - rank].attributes["seed"] == 1
    assert len(digests) == 2
