"""torch's stores, from the public place for Python and from the typed place for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._C._distributed_c10d import FileStore, PrefixStore, Store, TCPStore
else:
    from torch.distributed import FileStore, PrefixStore, Store, TCPStore

__all__ = ["FileStore", "PrefixStore", "Store", "TCPStore"]
