"""All ranks give bytes, all get everyone's bytes: meeting, and rounds over a store."""

from .protocol import Exchange, Judge
from .store_exchange import StoreExchange

__all__ = ["Exchange", "Judge", "StoreExchange"]
