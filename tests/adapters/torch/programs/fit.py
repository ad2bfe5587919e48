"""One rank under torchrun, or with its environment set by hand: without a group, then with one.

usage: fit.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch.distributed as dist
from histories import fit

from synchist_torch import distributed_history

if __name__ == "__main__":
    results = [
        fit(distributed_history(timeout=60)),
        fit(distributed_history(timeout=60), epochs=3),
    ]
    dist.init_process_group("gloo")
    results.append(fit(distributed_history(timeout=60)))
    dist.barrier()
    dist.destroy_process_group()
    Path(sys.argv[1], f"{results[0]['rank']}.json").write_text(json.dumps(results))
