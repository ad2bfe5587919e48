"""Mutated and random bytes for the decoder: each gives `CorruptDataError`, or a value that encodes.

Run it for as many inputs as wanted; it sets itself an address-space limit::

    python -m tests.codec.fuzz 1000000 [--seed N] [--seconds N]
"""

from __future__ import annotations

import argparse
import datetime as dt
import pathlib
import random
import resource
import time
import uuid
import zoneinfo
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from synchist.codec import decode, encode
from synchist.errors import CorruptDataError

from .values import Access, Colour, Labels, Loose, Point, Sample, Setup, registry

SEEDS: list[Any] = [
    {"loss": 0.5, "n": 3, "note": ("a", [None, True, -0.0]), 7: 2**70, b"k": bytearray(b"xyz")},
    [1.5] * 20,
    list(range(-200, 300, 7)),
    {n: n * 0.5 for n in range(80)},
    {frozenset({1, "a"}), (1, 2), "\ud800", 1j},
    [range(1, 9, 2), Decimal("-1E+400"), Fraction(-7, 3), uuid.UUID(int=5)],
    [dt.date(2020, 2, 29), dt.time(1, 2, 3, 4, dt.UTC, fold=1), dt.timedelta(-1, 5, 7)],
    [dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-1), "X"), fold=1)],
    [dt.datetime(9999, 12, 31, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))],
    [pathlib.PurePosixPath("a/b"), pathlib.PureWindowsPath("C:/x"), pathlib.Path("x")],
    [Colour.RED, Access.READ | Access.WRITE, Point(1, 2), Sample("a", [1]), Labels(a=1)],
    [Setup(0.1, (1, 2), None), Loose([3])],
    [np.float32(1), np.int8(-1), np.bool_(True), np.complex128(1j), np.str_("é"), np.bytes_(b"a")],
    [
        np.datetime64("2020-01-01T00:00", ("s", 25)),
        np.timedelta64(5),
        np.longdouble(1),
        np.void(b"ab"),
    ],
    np.arange(24, dtype=">f4").reshape(2, 3, 4),
    np.asfortranarray(np.arange(6, dtype="i2").reshape(2, 3)),
    np.array(["ab", "c"]),
    np.array([b"ab", b"c"]),
    np.array([True, False]),
    np.zeros((0, 5), "M8[ns]"),
    np.zeros(2, np.dtype([("a", "u1"), ("b", [("c", "<f8", (2, 2)), ("d", "U2")])], align=True)),
    np.zeros(1, np.dtype({"names": ["x"], "formats": ["i4"], "offsets": [3], "titles": ["t"]})),
    torch.arange(6).reshape(2, 3).to(torch.bfloat16),
    torch.tensor([[True, False]]),
    [torch.Size([1, 2]), torch.float32, torch.device("cuda", 1), torch.tensor(1 + 1j)],
    "x" * 300,
    b"y" * 70000,
]

BYTES = [0x00, 0x01, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x91, 0x9F, 0xA0, 0xC0, 0xC1, 0xC3, 0xC4, 0xC7]
BYTES += [0xC9, 0xCA, 0xCB, 0xCF, 0xD3, 0xD4, 0xD8, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF, 0xE0, 0xFF]
CODES = [*range(1, 9), *range(16, 26), *range(32, 54), *range(64, 68), 96, 100, -1]


def encodings() -> list[bytes]:
    return [encode(value, registry=registry) for value in SEEDS]


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    """A seed with a few changes that keep much of its structure."""
    data = bytearray(rng.choice(seeds))
    if len(data) > 2000:
        del data[rng.randrange(20, 2000) :]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        other = rng.choice(seeds)
        start = rng.randrange(len(other))
        match rng.randrange(8):
            case 0:
                data[at:at] = bytes([rng.choice(BYTES)])
            case 1:
                del data[at : at + rng.randrange(1, 5)]
            case 2:
                del data[at:]
            case 3:
                data[at:at] = other[start : start + rng.randrange(40)]
            case 4:
                data[at : at + 2] = rng.choice((b"\xff\xff", b"\x7f\xff", b"\x00\x00"))
            case 5 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case _ if at < len(data):
                data[at] = rng.choice(BYTES)
    return bytes(data)


def built(rng: random.Random, depth: int = 0) -> bytes:
    """Random msgpack: headers and lengths that mostly fit, anything inside."""
    size = rng.choice((0, 1, 1, 2, 3, 4, 5, 9, 17, 70))
    match rng.randrange(9) if depth < 6 else 0:
        case 1:
            return bytes([0x90 | size % 16]) + b"".join(
                built(rng, depth + 1) for _ in range(size % 16)
            )
        case 2:
            return bytes([0x80 | size % 16]) + b"".join(
                built(rng, depth + 1) for _ in range(size % 16 * 2)
            )
        case 3 | 4 | 5:
            inside = built(rng, depth + 1)
            length = len(inside) if rng.random() < 0.9 else rng.randrange(2**16)
            return b"\xc8" + (length % 2**16).to_bytes(2, "big") + code(rng) + inside
        case 6:
            return b"\xc7" + bytes([size]) + code(rng) + rng.randbytes(size)
        case 7:
            return b"\xcb" + rng.randbytes(8)
        case 8:
            return rng.choice(
                (b"\xa3<f4", b"\xa1C", b"\xa7float32", b"\xc4\x04abcd", b"\x92\x01\x04")
            )
        case _:
            return rng.randbytes(1) + rng.randbytes(rng.choice((0, 0, 1, 8)))


def code(rng: random.Random) -> bytes:
    return bytes([rng.choice(CODES) & 0xFF])


def inputs(seed: int, count: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    seeds = encodings()
    for _ in range(count):
        kind = rng.random()
        if kind < 0.75:
            yield mutated(rng, seeds)
        elif kind < 0.95:
            yield built(rng)
        else:
            yield rng.randbytes(rng.choice((1, 2, 5, 20, 100)))


def check(data: bytes) -> bool:
    """Whether the data decodes; then what comes out encodes, and that is a fixed point."""
    try:
        value = decode(data, registry=registry)
    except CorruptDataError as error:
        assert error.offset is not None
        assert 0 <= error.offset <= len(data)
        return False
    canonical = encode(value, registry=registry)
    assert encode(decode(canonical, registry=registry), registry=registry) == canonical
    return True


def run(inputs: Iterator[bytes], check: Callable[[bytes], bool], seconds: float) -> str:
    """Check the inputs under an address-space limit, for so long at most; what it came to."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (512 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    done, good, slowest, begun = 0, 0, 0.0, time.perf_counter()
    for data in inputs:
        start = time.perf_counter()
        try:
            good += check(data)
        except BaseException:
            print("input", data.hex(), flush=True)
            raise
        now = time.perf_counter()
        done, slowest = done + 1, max(slowest, now - start)
        if now - begun > seconds:
            break
    took = f"{time.perf_counter() - begun:.1f} s, slowest {slowest * 1e3:.1f} ms"
    return f"{done} inputs: {good} read, {done - good} refused, in {took}"


def arguments(text: str | None) -> argparse.Namespace:
    """How many inputs, from which seed on, for how long."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    found = parser.parse_args()
    print("seed", found.seed, flush=True)
    return found


def main() -> None:
    args = arguments(__doc__)
    check(encode(SEEDS[-3], registry=registry))  # loads what is loaded once
    print(run(inputs(args.seed, args.count), check, args.seconds))


if __name__ == "__main__":
    main()
