"""msgpack without its C extension: the same history, the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys

# Two ranks as threads; prints which msgpack it was and the digest that both ranks have.
TWO_RANKS = """
import msgpack, threading
from synchist import History, MemoryStore

store, digests = MemoryStore(), {}

def run(rank):
    with History(store=store, rank=rank, world_size=2, timeout=30) as h:
        for epoch in range(3):
            h.new_epoch(lr=0.1 / (epoch + 1))
            for batch in range(3 + rank):
                h.new_batch(loss=1.5 * batch + rank, batch_size=2**70, note=("a", [None, -0.0]))
            h.record("valid_loss", float("nan"), weight=rank + 1)
            h.sync()
        digests[rank] = h.digest()

threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert digests[0] == digests[1], digests
print(msgpack.Packer.__module__, digests[0])
"""


def two_ranks(pure: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", TWO_RANKS],
        env={**os.environ, "MSGPACK_PUREPYTHON": pure},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_two_ranks_agree_on_pure_python_msgpack_and_get_the_digest_of_the_c_build() -> None:
    module, digest = two_ranks(pure="1")
    assert module == "msgpack.fallback"
    assert two_ranks(pure="")[-1] == digest
