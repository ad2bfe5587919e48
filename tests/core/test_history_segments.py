"""What comes out of a store is untrusted: damaged bytes give one error, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synchist import CorruptDataError, History, MemoryStore
from synchist.codec import encode
from synchist.facts import Facts, judge
from synchist.handover import log_from_bytes, log_to_bytes
from synchist.model.delta import Delta
from synchist.model.log import Log
from synchist.segment import Call, Segment

WRITES = st.lists(
    st.tuples(
        st.sampled_from(["new_epoch", "new_batch", "record", "record_batch"]),
        st.dictionaries(
            st.sampled_from("ab"),
            st.one_of(st.floats(), st.integers(), st.text(max_size=2), st.none()),
            max_size=2,
        ),
    ),
    max_size=12,
)


def delta_of(writes: list[Any]) -> Delta:
    h = History(rank=0, world_size=2)
    h.new_epoch()
    h.new_batch()
    h.attributes["seed"] = 1
    for method, values in writes:
        if method != "record_batch" or h.local[-1, "batches"]:
            getattr(h, method)(values)
    return h._take(None)


def log_of(delta: Delta) -> Log:
    log = Log(lineage=3)
    log.apply(0, delta, 7)
    return log


def damage(data: st.DataObject, valid: bytes) -> bytes:
    """A few bytes changed, left out or put in."""
    broken = bytearray(valid)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(0, len(broken) - 1)))
        how = data.draw(st.sampled_from(["change", "cut", "insert", "end"]))
        if how == "change" and broken:
            broken[at] = data.draw(st.integers(0, 255))
        elif how == "cut":
            del broken[at : at + data.draw(st.integers(1, 9))]
        elif how == "insert":
            broken[at:at] = data.draw(st.binary(min_size=1, max_size=9))
        else:
            del broken[at:]
    return bytes(broken)


@settings(max_examples=150)
@given(WRITES, st.sampled_from([Call(), Call("dev", 3, "mean"), Call("\ud800")]))
def test_a_segment_comes_back_as_it_was(writes: list[Any], call: Call) -> None:
    delta = delta_of(writes)
    segment = Segment(b"c" * 32, call, 3, 7, delta=delta)
    found = Segment.decode(segment.encode(), 1)
    assert (found.chain, found.call, found.lineage, found.sequence) == (b"c" * 32, call, 3, 7)
    assert found.delta is not None
    assert log_of(found.delta).digest() == log_of(delta).digest()
    assert found.encode() == segment.encode()


def test_a_failure_comes_back_with_its_reason() -> None:
    found = Segment.decode(Segment(b"", Call(), 0, 1, failure="MemoryError: x").encode(), 0)
    assert (found.failure, found.delta) == ("MemoryError: x", None)


@settings(max_examples=400)
@given(WRITES, st.data())
def test_a_damaged_segment_is_refused_or_is_another_valid_one(
    writes: list[Any], data: st.DataObject
) -> None:
    valid = Segment(b"c" * 32, Call("dev", 0, "max"), 3, 7, delta=delta_of(writes)).encode()
    try:
        found = Segment.decode(damage(data, valid), 1)
    except CorruptDataError as error:
        assert "rank 1" in str(error)
        return
    if found.delta is not None:
        try:
            log_of(found.delta).digest()
        except CorruptDataError:
            pass


@given(st.binary(max_size=60))
def test_any_bytes_that_are_no_segment_are_refused(garbage: bytes) -> None:
    with pytest.raises(CorruptDataError):
        Segment.decode(garbage, 0)


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2**63), st.binary(max_size=9), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.lists(JUNK, max_size=8), st.data())
def test_well_formed_msgpack_that_means_nothing_is_refused(
    fields: list[Any], data: st.DataObject
) -> None:
    """Also with a correct beginning."""
    head: list[Any] = [1, 0, b"c" * 32, [None, None, None], 0, 1]
    kept = data.draw(st.integers(0, len(head)))
    packed = msgpack.packb([*head[:kept], *fields])
    try:
        found = Segment.decode(packed, 0)
    except CorruptDataError:
        return
    assert found.encode()


def body(*epochs: Any, attributes: Any = ()) -> bytes:
    packed: bytes = msgpack.packb(
        [1, 0, b"c" * 32, [None, None, None], 0, 1, [list(epochs), list(attributes)]]
    )
    return packed


FLOAT = encode(0.5)

BAD = {
    "an epoch twice": body([0, 0, [], []], [0, 0, [], []]),
    "a negative epoch": body([-1, 0, [], []]),
    "negative rows": body([0, -1, [], []]),
    "a batch beyond the rows": body([0, 1, [["a", "d", 1, bytes(8)]], []]),
    "a column before its start": body([0, 1, [["a", "d", -1, bytes(8)]], []]),
    "an empty column": body([0, 1, [["a", "d", 0, b""]], []]),
    "half a float": body([0, 9, [["a", "d", 0, bytes(12)]], []]),
    "an unknown kind of column": body([0, 1, [["a", "f", 0, bytes(8)]], []]),
    "floats as a list": body([0, 1, [["a", "d", 0, [0.5]]], []]),
    "coded values as bytes": body([0, 1, [["a", "x", 0, FLOAT]], []]),
    "a coded value that is text": body([0, 1, [["a", "x", 0, ["text"]]], []]),
    "batches that do not ascend": body([0, 9, [["a", "d", bytes(16), bytes(16)]], []]),
    "more batches than values": body([0, 9, [["a", "d", bytes(16), bytes(8)]], []]),
    "a name twice in a row": body([0, 1, [["a", "x", 0, [FLOAT]], ["a", "x", 0, [FLOAT]]], []]),
    "an epoch value twice": body([0, 0, [], [["a", FLOAT, None], ["a", FLOAT, None]]]),
    "the name batches": body([0, 0, [], [["batches", FLOAT, None]]]),
    "a name that is a number": body([0, 0, [], [[1, FLOAT, None]]]),
    "an epoch value that is text": body([0, 0, [], [["a", "text", None]]]),
    "a weight that is a number": body([0, 0, [], [["a", FLOAT, 1.0]]]),
    "an attribute twice": body(attributes=[["a", FLOAT, None], ["a", FLOAT, None]]),
    "too few fields": body([0, 0, []]),
    "an epoch that is no number": body(["0", 0, [], []]),
}


@pytest.mark.parametrize("segment", BAD.values(), ids=BAD)
def test_contradictions_inside_a_segment_are_refused(segment: bytes) -> None:
    with pytest.raises(CorruptDataError):
        Segment.decode(segment, 0)


def test_the_segments_above_would_be_right_without_their_fault() -> None:
    fine = body([0, 1, [["a", "d", 0, bytes(8)], ["b", "x", 0, [FLOAT]]], [["a", FLOAT, FLOAT]]])
    assert Segment.decode(fine, 0).delta


def test_another_format_says_to_install_the_same_version_everywhere() -> None:
    fields = msgpack.unpackb(Segment(b"", Call(), 0, 1, delta=Delta()).encode())
    with pytest.raises(CorruptDataError, match=r"format 99.*same version"):
        Segment.decode(msgpack.packb([99, *fields[1:]]), 2)


@settings(max_examples=200)
@given(WRITES, st.data())
def test_a_damaged_history_from_another_rank_is_refused_or_is_another_valid_one(
    writes: list[Any], data: st.DataObject
) -> None:
    valid = log_to_bytes(log_of(delta_of(writes)))
    assert log_from_bytes(valid, "x").digest() == log_of(delta_of(writes)).digest()
    try:
        log_from_bytes(damage(data, valid), "what rank 3 brought").digest()
    except CorruptDataError as error:
        assert "what rank 3 brought" in str(error)


FACTS = Facts(
    rank=0,
    world_size=2,
    history="history#1",
    job=None,
    rules=(("v", "mean"),),
    clears=0,
    lineage=0,
    digest="d" * 64,
    rounds=0,
    chain=None,
    empty=True,
)


@settings(max_examples=300)
@given(st.data())
def test_damaged_facts_are_a_reason_in_words(data: st.DataObject) -> None:
    broken = damage(data, FACTS.encode())
    told = judge(FACTS.encode(), broken, 0)
    assert told is None or isinstance(told, str)
    try:
        Facts.decode(broken)
    except CorruptDataError:
        assert told


def test_facts_of_another_protocol_version_say_so() -> None:
    fields = msgpack.unpackb(FACTS.encode())
    told = judge(FACTS.encode(), msgpack.packb([99, "whatever", *fields[3:]]), 0)
    assert told is not None
    assert "version 99" in told
    assert "same version of synchist everywhere" in told


class Meddling(MemoryStore):
    """A store in which somebody damages what rank 1 brings, once told to."""

    on = False

    def set(self, key: str, value: Any, /) -> None:
        if self.on and key.endswith("/1"):
            value = bytes(value[:-1]) + b"\xc1"
        super().set(key, value)


def test_a_rank_that_reads_damaged_bytes_raises_and_merges_nothing_of_the_round(
    at_once: Callable[..., list[Any]], sync_all: Callable[[Sequence[History]], None]
) -> None:
    store = Meddling()
    histories = [History(store=store, rank=r, world_size=2, timeout=20) for r in range(2)]
    for h in histories:
        h.new_epoch(v=1)
    sync_all(histories)
    before = histories[0].digest()
    store.on = True
    for h in histories:
        h.record("w", 1)
    reader, _ = at_once([lambda h=h: h.sync(timeout=2) for h in histories])
    assert isinstance(reader, CorruptDataError)
    assert "rank 1" in str(reader)
    assert histories[0].digest() == before
    assert histories[0].local[-1, "w"] == 1
