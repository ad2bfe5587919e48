"""Several epochs over the process group's own store: `group_program.py launch WORLD`, or torchrun.

Every rank prints one line of JSON: its rank and the digest after every sync.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist

from synchist_torch import distributed_history, launch


def fit() -> list[Any]:
    """Ranks do a different number of batches, under names of their own; rank 0 alone evaluates."""
    digests, stopped = [], None
    rank = dist.get_rank()
    with distributed_history(timeout=60) as h:
        for epoch in range(6):
            h.new_epoch(lr=0.1)
            for batch in range(2 + rank):
                h.new_batch({f"only{rank}": batch}, loss=torch.tensor(epoch + batch + 0.5))
            if rank == 0:
                h.record("f1", [0.1, 0.3, 0.2, 0.25, 0.3, 0.9][epoch])
            h.sync()
            digests.append(h.digest())
            if h.epochs_since_best("f1", mode="max") >= 3:
                stopped = epoch
                break
    return [rank, digests, stopped, len(h[-1, "batches"])]


def main() -> None:
    if sys.argv[1:2] == ["launch"]:
        for found in launch(fit, world_size=int(sys.argv[2])):
            print(json.dumps(found), flush=True)
        return
    dist.init_process_group("gloo")
    # One write, so that lines of several ranks do not run into each other.
    os.write(1, (json.dumps(fit()) + "\n").encode())
    dist.destroy_process_group()
    os._exit(0)  # torch's own threads abort now and then while the interpreter ends


if __name__ == "__main__":
    main()
