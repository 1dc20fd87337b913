"""JSON on the wire, both ways; orjson when it is installed (extra `speed`), else the standard library.

Either way NaN and Infinity, which JSON does not have, are refused: a quantity read from one would be nonsense.
"""

import gc
import json
from collections.abc import Callable
from typing import Any, NoReturn


def loads_plain(text: bytes | bytearray) -> Any:
    """`loads` by the standard library."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        msg = "JSON nested too deeply"
        raise ValueError(msg) from error


def dumps_plain(value: Any) -> bytes:
    """`dumps` by the standard library."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _refuse(constant: str) -> NoReturn:
    msg = f"{constant} is not JSON"
    raise ValueError(msg)


def _uncollected(read: Callable[[bytes | bytearray], Any]) -> Callable[[bytes | bytearray], Any]:
    """The same without a run of the garbage collector: 3 MiB may be 200,000 objects, and none of them is garbage.

    Else a large object would have the collector go through all that the process holds, which takes longer than reading.
    """

    def uncollected(text: bytes | bytearray) -> Any:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return read(text)
        finally:
            if enabled:
                gc.enable()

    return uncollected


loads: Callable[[bytes | bytearray], Any]
"""The value that a JSON text stands for; raises ValueError with the place when it is not JSON."""
dumps: Callable[[Any], bytes]
"""A value as compact UTF-8 JSON; raises TypeError or ValueError for what JSON cannot hold."""
CODEC: str
"""Which of the two is in use, for the log line at start."""

try:
    import orjson
except ImportError:
    loads, dumps, CODEC = _uncollected(loads_plain), dumps_plain, "json"
else:
    loads, dumps, CODEC = _uncollected(orjson.loads), orjson.dumps, "orjson"
