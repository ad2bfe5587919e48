"""Values that this process cannot rebuild, kept as they are."""

from __future__ import annotations

import attrs

__all__ = ["Opaque"]


@attrs.frozen(repr=False)
class Opaque:
    """A value whose type is not known here: kept byte for byte, so that nothing is lost.

    `decode` returns one for a numpy or torch value where that library is not installed, for an
    instance of a class that is not registered here, and for a type that a later version of
    synchist added. Encoding it again gives the same bytes, and a process that knows the type then
    gets the value. Two are equal when their bytes are. Immutable, hashable and picklable.

    Attributes:
        code: the extension code (see the format's table).
        data: the payload bytes.
        type_name: what the value is, for people: "torch.Tensor", or the registered name.
    """

    code: int
    data: bytes
    type_name: str = attrs.field(eq=False)

    def __repr__(self) -> str:
        return f"<Opaque {self.type_name}, {len(self.data)} bytes>"
