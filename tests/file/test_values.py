"""Every value that the codec stores, through a synced history of two ranks and through a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgpack
import msgpack.fallback
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synchist import History
from synchist.codec import encode
from synchist.codec._registry import DEFAULT

from ..codec.arrays import NUMPY, TORCH, arrays, tensors
from ..codec.same import same
from ..codec.values import HASHABLE, PLAIN, REGISTERED, plain, registry, values

Sync = Callable[[Sequence[History]], None]
World = Callable[..., list[History]]

ALL = {
    **PLAIN,
    **HASHABLE,
    **{f"registered {name}": strategy(plain) for name, strategy in REGISTERED.items()},
    **NUMPY,
    **TORCH,
}
EVERYTHING = values(arrays(), tensors(), *NUMPY.values(), *TORCH.values())

with_files = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module", autouse=True)
def classes_of_the_tests() -> Iterator[None]:
    """Histories take classes from the default registry."""
    for entry in registry._by_name.values():
        DEFAULT.register(entry.kind, entry.name, *cast(Any, entry.given))
    yield
    for name in registry._by_name:
        DEFAULT.unregister(name)


def through(value: Any, world: World, sync_all: Sync, path: Path) -> None:
    """Record it on rank 1 in every way; rank 0 has to read it, and so has who loads the file.

    It is in a list: of itself, a real tensor without dimensions becomes a Python number.
    """
    histories = world(2)
    for h in histories:
        h.new_epoch(first=0.5)
        h.new_batch(x=1.5)
    histories[1].record("value", [value])
    histories[1].record_batch("x", [value])
    histories[1].attributes["value"] = [value]
    sync_all(histories)
    histories[0].save(path)
    loaded = History.load(path)
    assert loaded.digest() == histories[0].digest() == histories[1].digest()
    for h in (*histories, loaded):
        assert same([value], h[0, "value"])
        assert same([value], h[0, "batches", 1, "x"])
        assert same([value], h.attributes["value"])
        assert h[0, "batches", 0, "x"] == 1.5


@pytest.mark.parametrize("name", ALL)
@with_files
@given(data=st.data())
def test_a_value_of_each_type_comes_back_from_the_other_rank_and_from_a_file(
    world: World, sync_all: Sync, tmp_path: Path, name: str, data: st.DataObject
) -> None:
    through(data.draw(ALL[name]), world, sync_all, tmp_path / "run.synchist")


@settings(with_files, max_examples=60)
@given(EVERYTHING)
def test_nested_values_come_back_from_the_other_rank_and_from_a_file(
    world: World, sync_all: Sync, tmp_path: Path, value: Any
) -> None:
    through(value, world, sync_all, tmp_path / "run.synchist")


@settings(max_examples=150)
@given(EVERYTHING)
def test_both_builds_of_msgpack_read_what_the_codec_writes_as_the_same(value: Any) -> None:
    data = encode(value, registry=registry)
    fast, pure = (
        unpack(data, strict_map_key=False, use_list=False, unicode_errors="surrogatepass")
        for unpack in (msgpack.unpackb, unpack_pure)
    )
    assert repr(fast) == repr(pure)


def unpack_pure(data: bytes, **options: Any) -> Any:
    unpacker = msgpack.fallback.Unpacker(None, max_buffer_size=len(data), **options)
    unpacker.feed(data)
    return unpacker.unpack()


def test_a_reader_without_the_class_loses_nothing(
    world: World, sync_all: Sync, tmp_path: Path
) -> None:
    """What it cannot decode it saves again as it was."""
    from ..codec.values import Setup

    h = History()
    h.new_epoch(setup=Setup(0.1, (1, 2), None))
    h.save(tmp_path / "mine")
    entry = registry._by_name["tests.Setup/1"]
    DEFAULT.unregister("tests.Setup/1")
    try:
        other = History.load(tmp_path / "mine")
        assert repr(other[0, "setup"]).startswith("<Opaque tests.Setup/1")
        other.save(tmp_path / "theirs")
    finally:
        DEFAULT.register(entry.kind, entry.name, *cast(Any, entry.given))
    assert same(History.load(tmp_path / "theirs")[0, "setup"], Setup(0.1, (1, 2), None))
