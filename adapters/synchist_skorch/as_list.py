"""The list that skorch's history is: adding, replacing and deleting epochs, and copying."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableSequence
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from skorch.history import History as PlainHistory

from synchist import UsageError
from synchist_skorch.place import Place
from synchist_skorch.sharing import Shared

__all__ = ["AsList"]

if TYPE_CHECKING:
    Base = list[Any]
else:
    Base = PlainHistory


class AsList(Base):
    """In one process a list like any other; what ranks share changes on all of them."""

    _place: Place
    _shared: Shared | None
    _joined: bool
    _steered: bool

    def _join(self) -> Shared | None:
        """The half that is shared, or None in one process."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget everything, as before a new fit. Does not talk; every rank calls it."""
        shared = self._join()
        if shared is None:
            list.clear(self)
        else:
            shared.clear(self)

    def insert(self, index: SupportsIndex, value: Any) -> None:
        """As of a list; ranks that share it can add epochs at the end only."""
        shared = self._join()
        if shared is None:
            list.insert(self, index, value)
        elif index.__index__() >= len(self):
            shared.append(self, value)
        else:
            raise _cannot("insert an epoch before others")

    def __setitem__(self, i: Any, value: Any) -> None:
        """As of a list; where ranks share it, `history[:] = epochs` loads them in its place."""
        shared = self._join()
        if shared is None:
            list.__setitem__(self, i, value)
        elif isinstance(i, slice) and range(*i.indices(len(self))) == range(len(self)):
            shared.load(self, list(value))
        elif isinstance(i, slice) or list.__getitem__(self, i) is not value:  # `history[0] |= ...`
            raise _cannot("replace an epoch")

    def __delitem__(self, i: SupportsIndex | slice) -> None:
        """Delete epochs, on every rank with the next sync."""
        shared = self._join()
        if shared is None:
            list.__delitem__(self, i)
        else:
            shared.delete(self, i if isinstance(i, slice) else i.__index__())

    def append(self, value: Any) -> None:
        """Add an epoch, with its batches, as recorded by this rank."""
        self.insert(len(self), value)

    extend = MutableSequence.extend
    pop = MutableSequence.pop  # type: ignore[assignment]  # its index is any SupportsIndex
    remove = MutableSequence.remove
    reverse = MutableSequence.reverse
    __iadd__ = MutableSequence.__iadd__

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        """As of a list; epochs that ranks share keep their order."""
        if self._join() is not None:
            raise _cannot("sort epochs")
        list.sort(self, key=key, reverse=reverse)

    def __imul__(self, n: Any) -> Self:  # type: ignore[misc]
        if self._join() is not None:
            raise _cannot("repeat epochs")
        list.__imul__(self, n)
        return self

    # -- copies --------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        if self._shared is not None:
            return copy.deepcopy(self)  # two lists that wrote to the same records would be one
        copied = type(self).__new__(type(self))
        copied.__setstate__(self.__reduce__()[2])
        return copied

    def __reduce__(self) -> Any:
        """Everything but the store, which a copy in the same process finds again."""
        own = {"_place", "_shared", "_joined", "_steered"}
        return (
            type(self).__new__,
            (type(self),),
            {
                "others": {name: value for name, value in vars(self).items() if name not in own},
                "place": self._place,
                "shared": self._shared,
                "epochs": list(self) if self._shared is None else None,
            },
        )

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state["others"])
        self._place, self._shared = state["place"], state["shared"]
        self._joined = self._shared is not None  # alone, it looks again where it is
        self._steered = False
        list.extend(self, self._shared.epochs() if state["epochs"] is None else state["epochs"])


def _cannot(what: str) -> UsageError:
    return UsageError(f"cannot {what} of a history that ranks share")
