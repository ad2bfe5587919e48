"""Values to bytes and back, exactly: type, dtype, shape, bits, order.

`encode` refuses what it cannot store exactly; `decode` rebuilds the value and executes nothing,
whatever the bytes are. Equal values of equal type have equal bytes on every process. The wire
format is described in `synchist.codec._wire`.

>>> from synchist.codec import decode, encode
>>> decode(encode({"loss": (0.5, 2**100)}))
{'loss': (0.5, 1267650600228229401496703205376)}
"""

from ._api import decode, encode
from ._opaque import Opaque
from ._registry import Registry, register

__all__ = ["Opaque", "Registry", "decode", "encode", "register"]
