"""Deleting what earlier attempts left in the store, as far as it can be derived.

Rank 0 leaves word of every attempt under one key that is overwritten: its nonces, and how far it
has come. The next meeting of the same history deletes what that names, so neither killed runs nor
many a `clear()` fill the store.
"""

from __future__ import annotations

from typing import Any, Final

import msgpack

from ..stores.guard import GuardedStore
from .keys import Keys
from .notes import unpack

__all__ = ["Tidier"]

_MOST: Final = 4096  # damaged notes must not make us delete for hours


class Tidier:
    """Knows the attempts whose keys may still be there. Nothing here ever raises."""

    def __init__(self, keys: Keys, label: str) -> None:
        self._keys = keys
        self._label = label
        self._left: dict[str, tuple[str, int, int]] | None = None

    def load(self, store: GuardedStore) -> None:
        """Read the word that was left."""
        self._known(store)

    def note(
        self, store: GuardedStore, challenge: str, attempt: str, world: int, number: int
    ) -> None:
        """Leave word of how far an attempt has come (an empty one: its meeting was refused)."""
        left = self._known(store)
        left[challenge] = (attempt, world, number)
        entries = [[challenge, *facts] for challenge, facts in left.items()]
        store.set(self._keys.last(self._label), msgpack.packb(entries))

    def tidy(self, store: GuardedStore, keep: str = "") -> None:
        """Delete the keys of all attempts that word was left of, but for the challenge `keep`."""
        left = self._known(store)
        for challenge in [challenge for challenge in left if challenge != keep]:
            self._drop(store, challenge, *left.pop(challenge))

    def _known(self, store: GuardedStore) -> dict[str, tuple[str, int, int]]:
        if self._left is None:
            self._left = {}
            key = self._keys.last(self._label)
            try:
                data = store.look(key)
                if data is not None:
                    for entry in msgpack.unpackb(data):
                        challenge, attempt, world, number = map(_check, entry, (str, str, int, int))
                        self._left[challenge] = (attempt, world, number)
            except Exception:  # noqa: BLE001  (what cannot be read cannot be tidied up)
                self._left = {}
        return self._left

    def _drop(
        self, store: GuardedStore, challenge: str, attempt: str, world: int, number: int
    ) -> None:
        keys = self._keys
        for rank in range(min(world, _MOST)):
            store.delete(keys.answer(challenge, rank))
            if attempt:
                store.delete(keys.bye(attempt, rank))
                for n in (number - 1, number, number + 1):
                    self._drop_segment(store, attempt, n, rank)
        store.delete(keys.ack(challenge))
        store.delete(keys.stop(challenge))
        if attempt:
            store.delete(keys.stop(attempt))
            store.delete(keys.left(attempt))
            for n in (number - 1, number, number + 1):
                store.delete(keys.commit(attempt, n))

    def _drop_segment(self, store: GuardedStore, attempt: str, number: int, rank: int) -> None:
        key = self._keys.segment(attempt, number, rank)
        pieces = 0
        try:
            data = store.look(key)
            if data is None:
                return
            pieces = unpack(data, key, int, int, int, bytes)[0]
        except Exception:  # noqa: BLE001  (what cannot be read cannot be tidied up)
            pieces = 0
        store.delete(key)
        for index in range(min(pieces, _MOST)):
            store.delete(self._keys.piece(attempt, number, rank, index))


def _check(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(kind)
    return value
