"""What cannot be stored exactly is refused, with the path to it and what to do."""

from __future__ import annotations

import array
import collections
import datetime as dt
import enum
import pathlib
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from synchist.codec import Registry, decode, encode
from synchist.codec._limits import MAX_DEPTH, MAX_RATIO_BYTES, MAX_SAME_HASH
from synchist.errors import TooLargeError, UnsupportedTypeError


class Text(str):
    __slots__ = ()


class Pair(NamedTuple):
    left: int
    right: int


class Kind(enum.IntEnum):
    A = 1


class Array(np.ndarray):
    pass


class Clock(dt.datetime):
    pass


class OwnZone(dt.tzinfo):
    def utcoffset(self, when: dt.datetime | None) -> None: ...

    def dst(self, when: dt.datetime | None) -> None: ...

    def tzname(self, when: dt.datetime | None) -> None: ...


class SameHash:
    def __hash__(self) -> int:
        return 7


TOO_MANY = MAX_SAME_HASH + 1


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8)


def metadata() -> Any:
    return np.zeros(2, np.dtype("f8", metadata={"unit": "m"}))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "object": (object, "convert it"),
    "a function": (lambda: len, "convert it"),
    "a class": (lambda: int, "convert it"),
    "memoryview": (lambda: memoryview(b"x"), "convert it"),
    "array.array": (lambda: array.array("d", [1.0]), "convert it"),
    "subclass of str": (lambda: Text("x"), "convert it to str, or register"),
    "subclass of dict": (lambda: collections.OrderedDict(a=1), "convert it to dict, or register"),
    "defaultdict": (lambda: collections.defaultdict(int), "convert it to dict, or register"),
    "namedtuple": (lambda: Pair(1, 2), "convert it to tuple, or register"),
    "IntEnum": (lambda: Kind.A, "convert it to int, or register"),
    "subclass of datetime": (
        lambda: Clock(2020, 1, 1),
        "convert it to datetime.datetime, or",
    ),
    "own time zone": (
        lambda: dt.datetime(2020, 1, 1, tzinfo=OwnZone()),
        "use datetime.timezone or",
    ),
    "subclass of ndarray": (
        lambda: np.zeros(2).view(Array),
        "convert it to numpy.ndarray, or",
    ),
    "masked array": (lambda: np.ma.masked_array([1], [True]), "convert it to numpy.ndarray"),
    "array of objects": (lambda: np.array([None, "x"]), "tolist()"),
    "records with objects": (lambda: np.zeros(2, [("a", "f4"), ("b", "O")]), "tolist()"),
    "dtype with metadata": (metadata, "cannot be stored exactly"),
    "record array": (lambda: np.rec.array([(1, 2.0)]), "convert it to numpy.ndarray"),
    "dtype of records": (
        lambda: np.zeros(1, (np.record, [("a", "f4")])),
        "cannot be stored exactly",
    ),
    "bools of other bytes": (lambda: np.array([2], "u1").view(bool), "astype"),
    "characters beyond Unicode": (lambda: np.array([0x110000], "u4").view("U1"), "astype"),
    "empty array of huge items": (lambda: np.zeros((0,), "S9000000"), "without any bytes"),
    "sparse tensor": (lambda: torch.zeros(2).to_sparse(), "to_dense()"),
    "quantized tensor": (
        lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8),
        "dequant",
    ),
    "meta tensor": (lambda: torch.zeros(2, device="meta"), "meta device"),
    "Parameter": (
        lambda: torch.nn.Parameter(torch.zeros(2)),
        "convert it to torch.Tensor, or",
    ),
    "huge fraction": (lambda: Fraction(1, 2 ** (8 * MAX_RATIO_BYTES)), "store the two as ints"),
    "keys of one hash": (
        lambda: {SameHash(): 1 for _ in range(TOO_MANY)},
        "list of pairs",
    ),
    "set of one hash": (
        lambda: {n * (2**61 - 1) for n in range(TOO_MANY)},
        "store a list",
    ),
}
if hasattr(np.dtypes, "StringDType"):
    REFUSED["numpy StringDType"] = (lambda: np.array(["x"], np.dtypes.StringDType()), "exactly")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_cannot_be_stored_exactly_is_refused_with_advice(name: str) -> None:
    make, advice = REFUSED[name]
    value = make()
    with pytest.raises(UnsupportedTypeError) as caught:
        encode(value)
    assert advice in str(caught.value)
    assert caught.value.path == ""


def test_a_time_zone_read_from_a_file_has_no_key_and_is_refused() -> None:
    folder = next(path for path in zoneinfo.TZPATH if pathlib.Path(path, "UTC").exists())
    with pathlib.Path(folder, "UTC").open("rb") as file:
        zone = zoneinfo.ZoneInfo.from_file(file)
    with pytest.raises(UnsupportedTypeError, match="use ZoneInfo"):
        encode({"at": dt.datetime(2020, 1, 1, tzinfo=zone)})


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([object()], "[0]"),
        ({"a": [1, object()]}, "['a'][1]"),
        ((1, {"b": (object(),)}), "[1]['b'][0]"),
        ({"a": {3: {(1, "x"): object()}}}, "['a'][3][(1, 'x')]"),
        ([{object: 1}], "[0]<key <class 'object'>>"),
        ([*range(100), object()], "[100]"),
        ({**dict.fromkeys("abcdefghijklmnopqrstuvwxyz"), "last": object()}, "['last']"),
        ([{Text("x")}], "[0]<element 'x'>"),
        ({"p": np.array([None])}, "['p']"),
    ],
)
def test_the_error_says_where_inside_the_value_the_trouble_is(value: Any, path: str) -> None:
    with pytest.raises(UnsupportedTypeError) as caught:
        encode(value)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"at {path}: ")


def test_a_key_that_cannot_be_shown_in_full_still_gives_the_refusal() -> None:
    with pytest.raises(UnsupportedTypeError, match="object") as caught:
        encode({10**5000: object()})
    assert caught.value.path == "[a int]"


def test_a_key_whose_repr_fails_still_gives_the_refusal() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    with pytest.raises(UnsupportedTypeError, match="Bad"):
        encode([{Bad(): 1}])


def nested(depth: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


WRAPS: dict[str, Any] = {
    "list": lambda value: [value],
    "tuple": lambda value: (value,),
    "dict": lambda value: {"k": value},
    "frozenset": lambda value: frozenset([value]),
}


@pytest.mark.parametrize("name", ["list", "tuple", "dict", "frozenset"])
def test_nesting_up_to_the_limit_comes_back_and_beyond_it_is_refused(name: str) -> None:
    deepest = nested(MAX_DEPTH, WRAPS[name])
    assert decode(encode(deepest)) == deepest
    with pytest.raises(UnsupportedTypeError, match=f"nested deeper than {MAX_DEPTH}") as caught:
        encode(nested(MAX_DEPTH + 1, WRAPS[name]))
    assert caught.value.path


@pytest.mark.parametrize(
    "leaf",
    [
        dt.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo("UTC")),
        dt.time(1, tzinfo=dt.timezone(dt.timedelta(hours=1), "x")),
        Fraction(1, 3),
        Decimal(1),
        range(3),
        pathlib.PurePosixPath("a"),
        np.float32(1),
        np.zeros(2, [("a", [("b", "f4", (2,))])]),
        torch.zeros(2, 2),
        torch.Size([1]),
    ],
    ids=lambda leaf: type(leaf).__name__,
)
def test_leaves_do_not_count_as_containers(leaf: Any) -> None:
    value = nested(MAX_DEPTH - 1, WRAPS["list"])
    innermost = value
    while innermost != [1]:
        innermost = innermost[0]
    innermost[0] = [leaf]
    assert encode(decode(encode(value))) == encode(value)


def test_deep_nesting_works_well_inside_a_deep_stack() -> None:
    def deep(levels: int) -> Any:
        return (
            decode(encode(nested(MAX_DEPTH, WRAPS["tuple"]))) if levels == 0 else deep(levels - 1)
        )

    assert deep(400) == nested(MAX_DEPTH, WRAPS["tuple"])


def test_a_value_that_contains_itself_is_refused_where_it_does() -> None:
    value: dict[str, Any] = {"a": [1, {}]}
    value["a"][1]["back"] = value
    with pytest.raises(UnsupportedTypeError, match="contains itself") as caught:
        encode([value])
    assert caught.value.path == "[0]['a'][1]['back']"


def test_a_value_that_shares_a_part_is_no_cycle() -> None:
    part = [1]
    assert decode(encode([part, part])) == [[1], [1]]


def test_a_windows_path_whose_text_is_another_path_is_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match="store str"):
        encode(pathlib.PureWindowsPath("./c:x"))


def test_a_dtype_nested_too_deep_is_refused() -> None:
    dtype: Any = np.dtype("f4")
    for _ in range(40):
        dtype = np.dtype([("x", dtype)])
    with pytest.raises(UnsupportedTypeError):
        encode(np.zeros(1, dtype))


def test_what_is_too_large_for_the_format_is_refused_with_the_limit_in_the_message() -> None:
    huge = np.broadcast_to(np.zeros(1, "u1"), (2**32,))  # takes one byte until it is copied
    with pytest.raises(TooLargeError, match="4294967295 bytes"):
        encode({"x": huge})


def test_a_refusal_leaves_nothing_behind() -> None:
    registry = Registry()
    with pytest.raises(UnsupportedTypeError):
        encode([1, object()], registry=registry)
    assert encode([1, 2], registry=registry) == b"\x92\x01\x02"
