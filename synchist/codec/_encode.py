"""Values to bytes: the writer that walks a value, and what it does when it cannot go on.

Leaf values come as bytes from `LEAVES`. Containers and everything that holds data too large to
copy around are written by a composite encoder, which appends parts to the writer; the parts are
joined once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import UnsupportedTypeError
from . import _wire
from ._limits import MAX_DEPTH
from ._tables import COMPOSITES, LEAVES

if TYPE_CHECKING:
    from ._registry import Registry

__all__ = ["Hole", "Part", "Refusal", "Writer", "encode_composite"]


class Hole:
    """Stands for `size` bytes that are known later: the data of a tensor still on its device."""

    __slots__ = ("size", "tensor")

    def __init__(self, tensor: Any, size: int) -> None:
        self.tensor = tensor
        self.size = size

    def __len__(self) -> int:
        return self.size


Part: TypeAlias = bytes | memoryview | Hole


class Refusal(Exception):
    """A value that cannot be stored, on its way up to `encode`, collecting its path.

    Raised and caught inside the codec only.
    """

    def __init__(self, message: str, *, too_deep: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.too_deep = too_deep
        self.steps: list[tuple[str, int]] = []

    def inside(self, step: str, container: object) -> None:
        """Notes that the trouble is at `step` of `container`."""
        self.steps.append((step, id(container)))

    def error(self) -> UnsupportedTypeError:
        """The error for the caller of `encode`."""
        steps = self.steps[::-1]
        message = self.message
        if self.too_deep:
            seen: set[int] = set()
            for length, (_, identity) in enumerate(steps):
                if identity in seen:
                    message = "the value contains itself; store a copy without the cycle"
                    steps = steps[:length]
                    break
                seen.add(identity)
        path = "".join(step for step, _ in steps)
        if not path:
            return UnsupportedTypeError(message)
        shown = path if len(path) <= 80 else f"{path[:77]}..."
        return UnsupportedTypeError(f"at {shown}: {message}", path=path)


class Writer:
    """Collects the parts of one encoded value. Used by one thread, for one value.

    Attributes:
        parts: what has been written.
        registry: where registered types are looked up.
        defer: asked for every tensor; where it says True, a `Hole` is left for its data.
    """

    __slots__ = ("defer", "parts", "registry")

    def __init__(self, registry: Registry, defer: Callable[[Any], bool] | None = None) -> None:
        self.parts: list[Part] = []
        self.registry = registry
        self.defer = defer

    def write(self, value: Any, depth: int) -> None:
        """Appends `value`, which stands `depth` containers deep."""
        kind = type(value)
        leaf = LEAVES.get(kind)
        if leaf is not None:
            self.parts.append(leaf(value))
            return
        composite = COMPOSITES.get(kind)
        if composite is None:
            composite = self.registry.composite(value)
        composite(self, value, depth)

    def write_all(self, values: tuple[Any, ...], depth: int, container: object, step: str) -> None:
        """Appends `values`, found in `container` at `step` (a format for the index)."""
        append = self.parts.append
        leaves = LEAVES
        index = -1
        try:
            for value in values:
                index += 1
                leaf = leaves.get(type(value))
                if leaf is not None:
                    append(leaf(value))
                else:
                    self.write(value, depth)
        except Refusal as refusal:
            refusal.inside(step.format(index), container)
            raise

    def enter(self, depth: int) -> None:
        """Refuses a container that stands too deep."""
        if depth >= MAX_DEPTH:
            raise Refusal(
                f"the value is nested deeper than {MAX_DEPTH} containers; flatten it",
                too_deep=True,
            )

    def open_ext(self) -> int:
        """Starts an extension value; what is appended until `close_ext` is its payload."""
        self.parts.append(b"")
        return len(self.parts)

    def close_ext(self, mark: int, code: int) -> None:
        """Ends the extension value that `open_ext` started."""
        parts = self.parts
        size = sum(map(len, parts[mark:]))
        parts[mark - 1] = _wire.ext_header(code, size)

    def separate(self, value: Any, depth: int) -> bytes:
        """The bytes of `value`, without adding them; its tensors are not deferred."""
        writer = Writer(self.registry)
        writer.write(value, depth)
        return writer.joined()

    def joined(self) -> bytes:
        """All parts as one; there must be no hole."""
        parts = self.parts
        if len(parts) == 1:
            return bytes(parts[0])  # type: ignore[arg-type]  # a hole fails here
        return b"".join(parts)  # type: ignore[arg-type]


def encode_composite(value: Any, registry: Registry) -> bytes:
    """The bytes of a value that is no leaf.

    Raises:
        UnsupportedTypeError: the value, or something in it, cannot be stored exactly.
        TooLargeError: something in it exceeds a limit.
    """
    writer = Writer(registry)
    try:
        writer.write(value, 0)
    except Refusal as refusal:
        raise refusal.error() from refusal.__cause__
    return writer.joined()
