"""What this process cannot rebuild is kept, and nothing of it is lost."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from synchist.codec import Opaque, decode, encode

from .values import Point, registry

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


def test_without_the_library_or_the_class_a_value_is_kept_byte_for_byte() -> None:
    value = [
        np.arange(3),
        np.float32(1),
        np.datetime64("2020-01-01"),
        np.str_("x"),
        torch.ones(2),
        torch.float32,
        torch.Size([1]),
        torch.device("cpu"),
        Point(1, 2),
    ]
    data = encode(value, registry=registry)
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
    assert "<Opaque tests.Point/1, " in shown
    assert "<Opaque numpy.ndarray, " in shown


def test_an_opaque_value_is_equal_by_its_bytes_hashable_and_picklable() -> None:
    one, other = (decode(encode(Point(n, 2), registry=registry)) for n in (1, 2))
    again = decode(encode(Point(1, 2), registry=registry))
    assert one == again
    assert hash(one) == hash(again)
    assert one != other
    assert one == Opaque(one.code, one.data, "named otherwise elsewhere")
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
