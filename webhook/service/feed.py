"""From an informer's objects to records: what cannot be read is noted, told, and left out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import structlog

from webhook.model.errors import UserError

log = structlog.get_logger(__name__)

Raw = dict[str, Any]
Record = TypeVar("Record")

# An exporter's odd attribute stands in the objects of all 5,000 nodes: that many lines say no more than these.
_TOLD: Final = 20


class Feed(Generic[Record]):
    """An informer's handler: `read` makes a record of an object, `put` and `drop` keep it."""

    def __init__(
        self,
        kind: str,
        read: Callable[[Mapping[str, Any]], Record],
        put: Callable[[Record], None],
        drop: Callable[[str], None],
    ) -> None:
        self.kind = kind
        self.faults: dict[str, tuple[str, ...]] = {}
        """What is wrong with which object, by key."""
        self._read = read
        self._put = put
        self._drop = drop

    def upsert(self, key: str, raw: Raw) -> None:
        """Take in an object that is there, or changed."""
        try:
            record = self._read(raw)
        except UserError as error:
            self._note(key, [str(error)])
            self._drop(key)
        except Exception as error:  # noqa: BLE001 # a CRD without a schema lets anything in; it must not end the service
            self._note(key, [f"unreadable: {error!r}"])
            self._drop(key)
        else:
            self._note(key, getattr(record, "problems", ()))
            self._put(record)

    def delete(self, key: str) -> None:
        """Forget an object that is gone."""
        self.faults.pop(key, None)
        self._drop(key)

    def _note(self, key: str, faults: Sequence[str]) -> None:
        before, now = self.faults.get(key, ()), tuple(faults)
        if now == before:
            return
        if now:
            self.faults[key] = now
            report = log.warning if len(self.faults) <= _TOLD else log.debug
            report("object.faulty", kind=self.kind, object=key, faults=now)
        else:
            del self.faults[key]
