"""JSON encoding and decoding with orjson if it is installed (extra `server`), else with the standard library.

Both reject NaN and Infinity, which are not valid JSON: a quantity read from one would be nonsense.
"""

import gc
import json
from collections.abc import Callable
from typing import Any, NoReturn


def loads_plain(text: bytes | bytearray) -> Any:
    """`loads` with the standard library."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        msg = "JSON nested too deeply"
        raise ValueError(msg) from error


def dumps_plain(value: Any) -> bytes:
    """`dumps` with the standard library."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _refuse(constant: str) -> NoReturn:
    msg = f"{constant} is not JSON"
    raise ValueError(msg)


def _uncollected(read: Callable[[bytes | bytearray], Any]) -> Callable[[bytes | bytearray], Any]:
    """The same function with the garbage collector paused: 3 MiB can be 200,000 objects, and none of them is garbage.

    Otherwise a large object would make the collector scan the whole heap, which takes longer than decoding.
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
"""Decode a JSON text; raises ValueError with the position if it is invalid."""
dumps: Callable[[Any], bytes]
"""A value as compact UTF-8 JSON; raises TypeError or ValueError for values that JSON cannot represent."""
CODEC: str
"""Which of the two libraries is in use, for the log line at start."""

try:
    import orjson
except ImportError:
    loads, dumps, CODEC = _uncollected(loads_plain), dumps_plain, "json"
else:
    loads, dumps, CODEC = _uncollected(orjson.loads), orjson.dumps, "orjson"
