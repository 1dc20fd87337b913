"""One page of a list. Its objects are cut from the text and decoded one at a time.

500 pods are 2 MiB of text, but 20 MiB of Python objects. Decoded one at a time they fit the CPU's caches, and the next
one takes the memory of the last one.
Decoded a page at a time, a list of 50,000 pods takes 65 % more CPU time, from its text to the state of 5,000 nodes.

    {"kind":"PodList","metadata":{...},"items":[{"metadata":...},{"metadata":...}]}
    |-------------- head -------------|         |--- object ---| |--- object ---||-| tail

1. The head ends before "items". It is a field of the page itself if the head and a closing brace are valid JSON.
2. An object ends where the next one seems to begin, or where a list seems to end. This is so if the text up to there is
   valid JSON: no JSON object is the beginning of another. Otherwise the next such place is tried.
3. What is left without the objects must be valid JSON, too.

A page that cannot be cut like this is decoded whole.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import structlog

from webhook.codec import loads
from webhook.kube.api_errors import MalformedAnswerError, UnreachableError, mapping_or_empty
from webhook.kube.resource import is_object, items_of
from webhook.model.raw import Raw

log = structlog.get_logger(__name__)

_ITEMS: Final = b'"items":['
# An object may contain lists of objects that begin as it does. Each wrong place costs as much as decoding up to there.
_MOST_TRIES: Final = 16


class ListPage:
    """The answer `text` to `call`, a GET of the list at `path`."""

    def __init__(self, text: bytes, call: str, path: str) -> None:
        self._text = text
        self._call = call
        self._path = path
        self._rest: Raw | None = None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The list's own metadata, after all objects have been read."""
        return mapping_or_empty((self._rest or {}).get("metadata"))

    def objects(self) -> Iterator[tuple[Raw, bytes | None]]:
        """The objects, each with its text; None if the page was decoded whole. Other entries are logged and left out.

        Raises UnreachableError or MalformedAnswerError if the answer is not a list, possibly after some objects.
        """
        begin = self._first()
        odd = 0
        while begin is not None:
            found = self._object_at(begin)
            if found is None:
                break
            raw, text = found
            end = begin + len(text)
            if is_object(raw):
                yield raw, text
            else:
                odd += 1
            del raw, text, found
            if self._text[end : end + 1] == b"]":
                self._rest = self._without_items(end)
                break
            begin = end + 1
        if self._rest is None:
            for raw in self._decoded_whole():
                yield raw, None
        elif odd:
            log.warning("list.odd_objects", path=self._path, count=odd)

    def _first(self) -> int | None:
        """Where the first object begins; None if the page cannot be cut."""
        at = self._text.find(_ITEMS)
        begin = at + len(_ITEMS)
        if at < 0 or self._text[begin : begin + 1] != b"{":
            return None
        return begin if isinstance(_decoded(self._text[:at].rstrip(b",") + b"}"), dict) else None

    def _object_at(self, begin: int) -> tuple[Any, bytes] | None:
        """The object that begins there, and its text; None if its end was not found."""
        text = self._text
        end = begin
        start_of_next = b"}," + text[begin : text.find(b":", begin) + 1]
        for _ in range(_MOST_TRIES):
            end = text.find(start_of_next, end) + 1
            if not end:
                break
            raw = _decoded(whole := text[begin:end])
            if raw is not None:
                return raw, whole
        end = len(text)
        for _ in range(_MOST_TRIES):
            end = text.rfind(b"}]", begin, end) + 1
            if not end:
                break
            raw = _decoded(whole := text[begin:end])
            if raw is not None:
                return raw, whole
        return None

    def _without_items(self, end: int) -> Raw | None:
        """The page with an empty list; None if that is not valid JSON."""
        begin = self._text.find(_ITEMS) + len(_ITEMS)
        rest = _decoded(self._text[:begin] + self._text[end:])
        return rest if isinstance(rest, dict) else None

    def _decoded_whole(self) -> Iterator[Raw]:
        try:
            page = loads(self._text)
        except ValueError as error:
            msg = f"{self._call}: the answer broke off: {error}"
            raise UnreachableError(msg) from error
        if not isinstance(page, dict):
            msg = f"{self._call}: the answer is not an object: {self._text[:200]!r}"
            raise MalformedAnswerError(msg)
        self._rest = page
        yield from items_of(page, self._path)


def _decoded(text: bytes) -> Any:
    """The JSON value of the text; None if it is not valid."""
    try:
        return loads(text)
    except ValueError:
        return None
