"""For authors of stores: tests that tell whether synchist can trust a store (extra: testing).

from synchist.testing import StoreTests

class TestMyStore(StoreTests):
def open_store(self):
return MyStore(...)  # a fresh handle on one shared backend
"""

from .history_check import check_history_over
from .promises import BrokenPromiseError
from .store_tests import CONTRACT_VERSION, StoreTests

__all__ = ["CONTRACT_VERSION", "BrokenPromiseError", "StoreTests", "check_history_over"]
