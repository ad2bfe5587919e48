"""Proving stores and programs, by tests and under faults (extra: testing).

For authors of stores:

    from synchist.testing import StoreTests

    class TestMyStore(StoreTests):
        def open_store(self):
            return MyStore(...)  # a fresh handle on one shared backend

`World` runs ranks as threads in virtual time, one step at a time in an order drawn from a seed, and
`FaultyStore` is a store with faults drawn from a seed.
"""

from .faulty_store import Faults, FaultyStore
from .history_check import check_history_over
from .promises import BrokenPromiseError
from .scheduler import StuckError
from .store_tests import CONTRACT_VERSION, StoreTests
from .trials import run_trial
from .world import Killed, World

__all__ = [
    "CONTRACT_VERSION",
    "BrokenPromiseError",
    "Faults",
    "FaultyStore",
    "Killed",
    "StoreTests",
    "StuckError",
    "World",
    "check_history_over",
    "run_trial",
]
