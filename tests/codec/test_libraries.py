"""numpy and torch are loaded when a value of theirs arrives, not before, by any thread."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import torch

from synchist.codec import encode

SCRIPT = """
import sys, threading
from synchist.codec import decode, encode

def loaded():
    return [name for name in ("numpy", "torch") if name in sys.modules]

decode(encode({"loss": (0.5, b"x"), 3: {1j}}))
try:
    encode(object())
except TypeError:
    pass
assert not loaded(), loaded()

data, wrong, start = bytes.fromhex(sys.argv[1]), [], threading.Barrier(8)

def first():
    start.wait()
    try:
        for _ in range(20):
            assert encode(decode(data)) == data
    except BaseException as error:
        wrong.append(error)

threads = [threading.Thread(target=first) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong, wrong
print(*loaded())
"""


def first_use(data: bytes) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, data.hex()],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_numpy_alone_is_loaded_for_its_values_by_several_threads_at_once() -> None:
    assert first_use(encode([np.arange(3), np.float32(1), np.str_("a")])) == "numpy"


def test_torch_is_loaded_for_its_values_by_several_threads_at_once() -> None:
    assert "torch" in first_use(encode([torch.ones(3), torch.float32])).split()
