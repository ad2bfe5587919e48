"""Calls out of order and names that cannot be: what is raised, and that nothing was recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from synchist import (
    DivergenceError,
    History,
    MemoryStore,
    NotSyncedError,
    SynchistError,
    UnsupportedTypeError,
    UsageError,
)


class Unknown:
    pass


def empty() -> History:
    return History()


def in_epoch() -> History:
    h = History()
    h.new_epoch(lr=0.1)
    return h


def in_batch() -> History:
    h = in_epoch()
    h.new_batch(loss=1.0)
    return h


MISUSES: list[tuple[str, Callable[[], History], Callable[[History], Any], str]] = [
    ("record", empty, lambda h: h.record("a", 1), r"'a'.*new_epoch\(\) first"),
    ("record mapping", empty, lambda h: h.record({"a": 1}), r"'a'.*new_epoch\(\) first"),
    ("record_batch", empty, lambda h: h.record_batch("a", 1.0), r"'a'.*new_epoch\(\).*new_batch"),
    ("record_batch", in_epoch, lambda h: h.record_batch("a", 1.0), r"epoch 0.*new_batch\(\)"),
    ("known name", in_epoch, lambda h: h.record_batch("lr", 1.0), r"epoch 0.*new_batch\(\)"),
    ("new_batch", empty, lambda h: h.new_batch(), r"call new_epoch\(\) first"),
    ("new_batch values", empty, lambda h: h.new_batch(a=1), r"call new_epoch\(\) first"),
    ("agree", empty, lambda h: h.agree("a", 1), r"'a'.*new_epoch\(\) first"),
    ("name 3", in_batch, lambda h: h.record(3, 1), "a name must be a string, got 3"),  # type: ignore[arg-type]
    ("name list", in_batch, lambda h: h.record_batch(["a"], 1.0), "string, got"),  # type: ignore[arg-type]
    ("name dict", in_batch, lambda h: h.record_batch({"a": 1.0}, 2.0), "string, got"),
    ("name list", in_batch, lambda h: h.record(["a"], 1.0), "string, got"),  # type: ignore[arg-type]
    ("name None", in_batch, lambda h: h.record_batch(None, 1.0), "string, got None"),  # type: ignore[arg-type]
    ("name bytes", in_batch, lambda h: h.record({b"a": 1}), "string, got b'a'"),  # type: ignore[dict-item]
    ("name in new_batch", in_batch, lambda h: h.new_batch({1: 1.0}), "string, got 1"),  # type: ignore[dict-item]
    ("name in new_epoch", in_batch, lambda h: h.new_epoch({(): 1.0}), r"string, got \(\)"),  # type: ignore[dict-item]
    ("name of attribute", in_batch, lambda h: put(h, 3, 1), "string, got 3"),
    ("name of agree", in_batch, lambda h: h.agree(3, 1), "string, got 3"),  # type: ignore[arg-type]
    ("batches", in_batch, lambda h: h.record("batches", 1), "'batches' is taken"),
    ("batches", in_batch, lambda h: h.record_batch("batches", 1.0), "'batches' is taken"),
    ("batches", in_batch, lambda h: h.new_batch(batches=1.0), "'batches' is taken"),
    ("batches", in_batch, lambda h: h.new_epoch(batches=1.0), "'batches' is taken"),
    ("batches", in_batch, lambda h: put(h, "batches", 1), "'batches' is taken"),
    ("no value", in_batch, lambda h: h.record("a"), r"record\('a', value\)"),
    ("no value", in_batch, lambda h: h.record_batch("a"), r"record_batch\('a', value\)"),
    ("no mapping", in_batch, lambda h: h.new_batch([("a", 1)]), "mapping.*got list"),  # type: ignore[arg-type]
    ("no mapping", in_batch, lambda h: h.new_epoch("a"), "mapping.*got str"),  # type: ignore[arg-type]
    ("no mapping", in_batch, lambda h: h.record(["a"]), "string, got"),  # type: ignore[arg-type]
    ("weight", in_batch, lambda h: h.record("a", 1, weight=-1), "weight is a finite number"),
    ("weight", in_batch, lambda h: h.record("a", 1, weight="3"), "weight is a finite number"),
    ("weight", in_batch, lambda h: h.record("a", 1, weight=float("nan")), "weight is a finite"),
    ("weight", in_batch, lambda h: h.record("a", 1, weight=float("inf")), "weight is a finite"),
    ("deleting", in_batch, lambda h: h.attributes.__delitem__("a"), "cannot be deleted"),
    ("timeout", in_batch, lambda h: h.sync(timeout=-1), "seconds"),
    ("timeout", in_batch, lambda h: h.sync(timeout="1"), "seconds"),  # type: ignore[arg-type]
    ("rule", in_batch, lambda h: h.agree("a", 1, reduce="average"), "mean, sum"),
    ("rule", in_batch, lambda h: h.reduce("loss", "median"), "mean, sum"),
    ("mode", in_batch, lambda h: h.best("lr", mode="lowest"), "'min' or 'max'"),
]


def put(h: History, name: Any, value: Any) -> None:
    h.attributes[name] = value


def seen(h: History) -> tuple[Any, ...]:
    return h.digest(), h.to_list(), h.local.to_list(), dict(h.attributes), repr(h)


@pytest.mark.parametrize(
    ("state", "call", "message"),
    [pytest.param(*case[1:], id=f"{case[0]} {case[1].__name__}") for case in MISUSES],
)
def test_misuse_says_what_to_do_and_changes_nothing(
    state: Callable[[], History], call: Callable[[History], Any], message: str
) -> None:
    h, same = state(), state()
    for history in (h, same):
        seen(history)
    with pytest.raises(UsageError, match=message):
        call(h)
    assert seen(h) == seen(same)
    for history in (h, same):
        history.new_epoch(lr=0.2)
        history.new_batch(loss=2.0)
        history.record_batch("late", 1)
    assert seen(h) == seen(same)


@pytest.mark.parametrize(
    "call",
    [
        lambda h, v: h.new_epoch(a=1, b=v),
        lambda h, v: h.new_batch(a=1, b=v),
        lambda h, v: h.new_batch({"loss": 1.0, "b": v}),
        lambda h, v: h.record({"a": 1, "b": v}),
        lambda h, v: h.record_batch({"a": 1, "b": v}),
        lambda h, v: h.record("b", v, weight=3),
        lambda h, v: put(h, "b", v),
    ],
    ids=["new_epoch", "new_batch", "mapping", "record", "record_batch", "weight", "attributes"],
)
@pytest.mark.parametrize("value", [Unknown(), {1, Unknown()}, [{"x": (0, Unknown())}]])
def test_a_value_that_cannot_be_stored_is_refused_when_recorded_and_changes_nothing(
    call: Callable[[History, Any], None], value: Any
) -> None:
    h, same = in_batch(), in_batch()
    with pytest.raises(UnsupportedTypeError, match=r"cannot record 'b' \(rank 0.*Unknown"):
        call(h, value)
    assert seen(h) == seen(same)
    for history in (h, same):
        history.record_batch("late", 1)
        history.new_batch()
    assert seen(h) == seen(same)


def test_a_refused_value_is_named_by_its_place_and_the_path_to_it() -> None:
    h = in_batch()
    with pytest.raises(UnsupportedTypeError, match=r"rank 0, epoch 0, batch 0") as caught:
        h.record_batch("outputs", {"logits": [1, Unknown()]})
    assert caught.value.path == "['logits'][1]"
    assert isinstance(caught.value, TypeError)
    with pytest.raises(UnsupportedTypeError, match=r"rank 0, epoch 0\)"):
        h.record("outputs", Unknown())


def test_a_container_that_holds_itself_is_refused() -> None:
    h = in_batch()
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UnsupportedTypeError, match="contains itself"):
        h.record("loop", loop)


@pytest.mark.parametrize(
    "options",
    [
        {"store": MemoryStore()},
        {"rank": 0},
        {"world_size": 2},
        {"store": MemoryStore(), "rank": 0},
        {"store": MemoryStore(), "rank": 2, "world_size": 2},
        {"store": MemoryStore(), "rank": -1, "world_size": 2},
        {"store": MemoryStore(), "rank": 0, "world_size": 0},
        {"store": MemoryStore(), "rank": "0", "world_size": 2},
        {"store": object(), "rank": 0, "world_size": 2},
        {"store": "tcp://localhost", "rank": 0, "world_size": 2},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": None},
        {"reduce": {"loss": "avg"}},
        {"reduce": {"loss": 3}},
    ],
    ids=",".join,
)
def test_arguments_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        History(**options)


def test_arguments_are_keywords_only() -> None:
    with pytest.raises(TypeError):
        History(MemoryStore(), 0, 2)  # type: ignore[call-arg]


def test_an_object_that_is_no_store_is_told_what_it_lacks() -> None:
    with pytest.raises(UsageError, match=re.escape("lacks set, get, wait, delete_key")):
        History(store=object(), rank=0, world_size=2)  # type: ignore[arg-type]


def test_a_wrong_rule_is_named_with_the_allowed_ones_and_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'loss'.*mean.*sum.*did you mean 'mean'"):
        History(reduce={"loss": "maen"})


@pytest.mark.parametrize(
    "call",
    [
        lambda h: h.best("never"),
        lambda h: h.per_rank(-1, "never"),
        lambda h: h.reduce("never"),
        lambda h: h.attributes["never"],
        lambda h: h[-1, "never"],
        lambda h: h.agree("never"),
        lambda h: h.ranks[7],
    ],
)
def test_what_was_never_recorded_is_a_key_error(call: Callable[[History], Any]) -> None:
    with pytest.raises(KeyError):
        call(in_batch())


@pytest.mark.parametrize("epoch", [1, -2, 99])
def test_an_epoch_that_is_not_there_is_an_index_error(epoch: int) -> None:
    h = in_batch()
    with pytest.raises(IndexError):
        h.per_rank(epoch, "lr")
    with pytest.raises(IndexError):
        h.reduce("loss", epoch=epoch)
    with pytest.raises(IndexError):
        h[epoch]


@pytest.mark.parametrize("view", ["synced", "local"])
def test_views_cannot_be_written_through(view: str) -> None:
    reader = getattr(in_batch(), view)
    for method in ("new_epoch", "new_batch", "record", "record_batch", "sync"):
        assert not hasattr(reader, method)
    with pytest.raises(TypeError):
        reader.attributes["a"] = 1
    with pytest.raises(TypeError):
        reader[-1, "lr"] = 1


def test_errors_are_also_the_builtins_that_callers_catch() -> None:
    assert issubclass(UsageError, SynchistError)
    assert issubclass(UsageError, ValueError)
    assert issubclass(UnsupportedTypeError, TypeError)
    assert issubclass(NotSyncedError, RuntimeError)
    assert not issubclass(NotSyncedError, KeyError)
    assert issubclass(DivergenceError, ValueError)


def test_without_a_store_several_ranks_cannot_sync_and_are_told_to_attach() -> None:
    h = History(rank=1, world_size=2)
    h.new_epoch(a=1)
    with pytest.raises(UsageError, match="attach"):
        h.sync()
    assert h.local[-1, "a"] == 1
