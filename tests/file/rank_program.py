"""One rank of a test: `python rank_program.py ROLE FOLDER ...`; prints what it has at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from synchist import DirectoryStore, History


def go_on(folder: Path, rank: int, world_size: int, epochs: int) -> None:
    """Load the file, or begin, and train up to so many epochs; rank 0 saves each."""
    path = folder / "run.synchist"
    h = History.load(path, timeout=60) if path.exists() else History(timeout=60)
    h.attach(store=DirectoryStore(folder / f"store {epochs}"), rank=rank, world_size=world_size)
    with h:
        for epoch in range(len(h), epochs):
            h.new_epoch(lr=0.1)
            for batch in range(rank + 2):
                h.new_batch(loss=epoch + batch / 4, rank=rank)
            h.sync()
            if rank == 0:
                h.save(path)
    print(len(h), h.digest())


def save_for_ever(folder: Path) -> None:
    """Save a history again and again, one epoch longer each time."""
    h = History()
    while True:
        h.new_epoch(n=len(h))
        for _ in range(200):
            h.new_batch(loss=0.5, image=b"x" * 100)
        h.save(folder / "run.synchist")
        print(len(h), flush=True)


if __name__ == "__main__":
    role, where, *numbers = sys.argv[1:]
    roles: dict[str, Callable[..., None]] = {"go_on": go_on, "save_for_ever": save_for_ever}
    roles[role](Path(where), *map(int, numbers))
