"""Registering types: names, clashes, separate registries, and classes stored by their fields."""

from __future__ import annotations

import dataclasses
import enum
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


def test_a_class_defined_anew_takes_the_place_of_the_old_one() -> None:
    """As when a notebook's cell is run again."""
    registry = Registry()
    for _ in range(2):
        kind = type("Again", (Celsius,), {})
        registry.register(kind, "tests.Again/1", of_celsius, kind)
    assert type(decode(encode(kind(1.0), registry=registry), registry=registry)) is kind


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

    @dataclasses.dataclass
    class Names(set):  # type: ignore[type-arg]
        name: str

    class Plain(Range):  # inherits the fields, but may hold more
        pass

    class Named(Pair):
        pass

    for kind in (Scores, Names, Plain):
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
