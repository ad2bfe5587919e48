"""Registering types: names, clashes, separate registries, and classes stored by their fields."""

from __future__ import annotations

import dataclasses
import enum
import subprocess
import sys
import typing
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest
import torch

from synchist.codec import Opaque, Registry, decode, encode, register
from synchist.codec._registry import DEFAULT
from synchist.errors import CorruptDataError, UnsupportedTypeError, UsageError


class Celsius:
    def __init__(self, degrees: float) -> None:
        self.degrees = degrees


def of_celsius(value: Celsius) -> float:
    return value.degrees


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register(Celsius, "tests.Celsius/1", of_celsius, Celsius)
    return registry


def test_a_registered_class_comes_back_as_an_instance(registry: Registry) -> None:
    back = decode(encode([Celsius(36.6)], registry=registry), registry=registry)
    assert type(back[0]) is Celsius
    assert back[0].degrees == 36.6


def test_the_default_registry_is_not_touched_by_another_one(registry: Registry) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"synchist\.codec\.register"):
        encode(Celsius(1.0))
    assert isinstance(decode(encode(Celsius(1.0), registry=registry)), Opaque)


def test_register_uses_the_default_registry() -> None:
    register(Celsius, "tests.Celsius/default", of_celsius, Celsius)
    try:
        assert decode(encode(Celsius(2.0))).degrees == 2.0
    finally:
        DEFAULT.unregister("tests.Celsius/default")


def test_a_copy_of_a_registry_goes_its_own_way(registry: Registry) -> None:
    copy = registry.copy()
    copy.unregister("tests.Celsius/1")
    copy.register(Celsius, "tests.Celsius/2", of_celsius, Celsius)
    assert "Celsius/1" in repr(registry)
    assert "Celsius/2" not in repr(registry)


def test_registering_the_very_same_again_does_nothing(registry: Registry) -> None:
    registry.register(Celsius, "tests.Celsius/1", of_celsius, Celsius)


def test_a_class_without_functions_may_be_registered_again(registry: Registry) -> None:
    for _ in range(2):
        registry.register(Shade, "tests.Shade/1")


def test_a_second_name_for_a_type_is_an_error(registry: Registry) -> None:
    with pytest.raises(UsageError, match=r"already registered, as 'tests\.Celsius/1'"):
        registry.register(Celsius, "tests.Celsius/2", of_celsius, Celsius)


def test_a_second_type_for_a_name_is_an_error(registry: Registry) -> None:
    class Kelvin(Celsius):
        pass

    with pytest.raises(UsageError, match=r"already registered, for .*Celsius"):
        registry.register(Kelvin, "tests.Celsius/1", of_celsius, Kelvin)


@pytest.mark.parametrize("kind", [int, list, np.ndarray, np.float32, torch.Tensor, Opaque])
def test_a_built_in_type_cannot_be_registered(kind: type) -> None:
    with pytest.raises(UsageError, match="built-in"):
        Registry().register(kind, "x", lambda value: 1, lambda stored: 1)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", 3, "\ud800"])
def test_a_name_must_be_a_short_printable_str(name: Any) -> None:
    with pytest.raises(UsageError, match="name of a type"):
        Registry().register(Celsius, name, of_celsius, Celsius)


def test_what_is_no_class_and_half_a_pair_of_functions_are_errors() -> None:
    with pytest.raises(UsageError, match="takes a class"):
        Registry().register(typing.cast(Any, Celsius(1.0)), "x", of_celsius, Celsius)
    with pytest.raises(UsageError, match="together"):
        Registry().register(Celsius, "x", of_celsius)
    with pytest.raises(UsageError, match="give register"):
        Registry().register(Celsius, "x")


def test_a_subclass_of_a_registered_class_is_refused(registry: Registry) -> None:
    class Kelvin(Celsius):
        pass

    with pytest.raises(UnsupportedTypeError, match="Kelvin"):
        encode(Kelvin(1.0), registry=registry)


def test_an_encoder_that_fails_is_named_and_its_error_kept() -> None:
    registry = Registry()
    registry.register(Celsius, "tests.Bad/1", lambda value: "abc"[3], Celsius)
    with pytest.raises(UnsupportedTypeError, match=r"tests.Bad/1' raised IndexError") as caught:
        encode([Celsius(1.0)], registry=registry)
    assert isinstance(caught.value.__cause__, IndexError)
    assert caught.value.path == "[0]"


def test_an_encoder_that_gives_what_cannot_be_stored_is_refused_with_the_path() -> None:
    registry = Registry()
    registry.register(Celsius, "tests.Bad/1", lambda value: [object()], Celsius)
    with pytest.raises(UnsupportedTypeError, match="object") as caught:
        encode({"t": Celsius(1.0)}, registry=registry)
    assert caught.value.path == "['t']<tests.Bad/1>[0]"


def test_an_encoder_that_returns_its_argument_is_refused() -> None:
    registry = Registry()
    registry.register(Celsius, "tests.Bad/1", lambda value: value, Celsius)
    with pytest.raises(UnsupportedTypeError, match="contains itself"):
        encode(Celsius(1.0), registry=registry)


def test_a_decoder_that_fails_means_corrupt_data(registry: Registry) -> None:
    strict = Registry()
    strict.register(
        Celsius, "tests.Celsius/1", of_celsius, lambda stored: Celsius(float(stored[0]))
    )
    data = encode(Celsius(1.0), registry=registry)
    with pytest.raises(CorruptDataError, match=r"tests.Celsius/1' raised TypeError") as caught:
        decode(data, registry=strict)
    assert caught.value.offset is not None


class Shade(enum.Enum):
    DARK = object()  # a value that cannot be stored: the name is


class Mask(enum.IntFlag):
    A = 1
    B = 2


class Pair(NamedTuple):
    left: Any
    right: Any = 0


@attrs.define
class Range:
    low: Any = attrs.field()
    high: Any = attrs.field(default=10)

    @low.validator
    def _check(self, attribute: Any, value: Any) -> None:
        if value is None:
            raise ValueError("no low")


@dataclasses.dataclass
class Counter:
    start: int
    total: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.total = self.start


class Kinds(NamedTuple):
    registry: Registry


@pytest.fixture
def kinds() -> Registry:
    registry = Registry()
    for kind in (Shade, Mask, Pair, Range, Counter):
        registry.register(kind, f"tests.{kind.__name__}/1")
    return registry


def back(value: Any, registry: Registry) -> Any:
    result = decode(encode(value, registry=registry), registry=registry)
    assert type(result) is type(value)
    return result


def test_enum_members_come_back_as_the_member(kinds: Registry) -> None:
    assert back(Shade.DARK, kinds) is Shade.DARK
    assert back(Mask.A | Mask.B, kinds) == Mask.A | Mask.B
    assert back(Mask(0), kinds) == Mask(0)


def test_fields_are_restored_as_they_are_without_running_init(kinds: Registry) -> None:
    counter = Counter(1)
    counter.total = 7
    assert back(counter, kinds) == counter
    assert back(Pair([1], (2,)), kinds) == Pair([1], (2,))
    assert back(Range(1), kinds) == Range(1)


def test_an_attribute_that_is_no_field_is_refused_rather_than_lost(kinds: Registry) -> None:
    counter = Counter(1)
    counter.note = "x"  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedTypeError, match="'note' is no field"):
        encode(counter, registry=kinds)


def test_a_field_that_is_not_set_is_refused(kinds: Registry) -> None:
    counter = Counter(1)
    del counter.total
    with pytest.raises(UnsupportedTypeError, match="'total' is not set"):
        encode(counter, registry=kinds)


def test_changed_fields_ask_for_a_new_name(kinds: Registry) -> None:
    @attrs.define
    class Changed:
        low: Any

    other = Registry()
    other.register(Changed, "tests.Range/1")
    with pytest.raises(CorruptDataError, match="under a new name"):
        decode(encode(Range(1), registry=kinds), registry=other)


def test_a_class_that_is_more_than_its_fields_needs_functions() -> None:
    @attrs.define
    class Scores(dict):  # type: ignore[type-arg]
        name: str

    class Plain(Range):  # inherits the fields, but may hold more
        pass

    class Named(Pair):
        pass

    for kind in (Scores, Plain):
        with pytest.raises(UsageError, match="give register"):
            Registry().register(kind, "x")
    registry = Registry()
    registry.register(Named, "tests.Named/1")
    named = Named(1, 2)
    assert back(named, registry) == named
    named.extra = 1  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedTypeError, match="'extra' is no field"):
        encode(named, registry=registry)


def test_a_hash_that_attrs_caches_is_no_field_and_is_refused() -> None:
    @attrs.frozen(cache_hash=True)
    class Cached:
        x: int

    registry = Registry()
    registry.register(Cached, "tests.Cached/1")
    with pytest.raises(UnsupportedTypeError, match="no field"):
        encode(Cached(1), registry=registry)


OPAQUE = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "torch"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
from synchist.codec import Opaque, decode, encode
data = bytes.fromhex(sys.argv[1])
value = decode(data)
print(value)
assert encode(value) == data
assert {Opaque} == {type(v) for v in value}, value
"""


def test_without_the_library_or_the_class_a_value_is_kept_byte_for_byte(kinds: Registry) -> None:
    value = [
        np.arange(3),
        np.float32(1),
        np.datetime64("2020-01-01"),
        np.str_("x"),
        torch.ones(2),
        torch.float32,
        torch.Size([1]),
        torch.device("cpu"),
        Pair(1, 2),
    ]
    data = encode(value, registry=kinds)
    done = subprocess.run(
        [sys.executable, "-c", OPAQUE, data.hex()],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    assert "<Opaque torch.Tensor, " in shown
    assert "<Opaque tests.Pair/1, " in shown
    assert "<Opaque numpy.ndarray, " in shown


def test_an_opaque_value_is_equal_by_its_bytes_hashable_and_picklable(kinds: Registry) -> None:
    import pickle

    one, other = (decode(encode(Pair(n, 2), registry=kinds)) for n in (1, 2))
    again = decode(encode(Pair(1, 2), registry=kinds))
    assert one == again
    assert hash(one) == hash(again)
    assert one != other
    assert pickle.loads(pickle.dumps(one)) == one
    assert decode(encode({one: [one]}))[again] == [one]


def test_codes_and_dtypes_of_a_later_version_are_kept() -> None:
    for data in (
        b"\xd4\x64\x01",
        b"\xd6\xff\x00\x00\x00\x01",
        b"\xc7\x0e\x40\x93\xa7float99\x91\x01\xc4\x01x",
        b"\xc7\x05\x42quint",
    ):
        value = decode(data)
        assert isinstance(value, Opaque)
        assert encode(value) == data


@pytest.mark.skipif(sys.platform == "win32", reason="the paths of the other platform")
def test_a_windows_path_is_kept_where_there_are_none() -> None:
    data = b"\xc7\x05\x19\x92\x03\xa2C:"
    assert repr(decode(data)) == "<Opaque pathlib.WindowsPath, 5 bytes>"
    assert encode(decode(data)) == data
