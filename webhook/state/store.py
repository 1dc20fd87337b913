"""Objects of the API become records: each is read once, when it arrives.

A `Feed` is what an informer fills. An object that cannot be read or stored is logged and left out: one odd object must
not stop a cluster. A `Store` keeps the records of one kind by key, for kinds that decisions look up one by one; the
kinds that are counted per node (nodes, NodeResourceTopologies, pods) have feeds of their own in `cluster_cache`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import structlog

from webhook.internal_errors import Where, contained, internal_error
from webhook.model.errors import UserError
from webhook.model.raw import Raw
from webhook.signal import Signal

log = structlog.get_logger(__name__)
Record = TypeVar("Record")

# An exporter's odd attribute may be in the objects of all 5,000 nodes. 5,000 lines say no more than these do.
_TOLD: Final = 20


class Feed(Generic[Record]):
    """An informer's handler: `read` makes a record of an object, `put` stores it, `drop` removes it by key.

    A record of None is never stored: the object is none of those that are kept, so `drop` is called for it.
    """

    def __init__(
        self,
        kind: str,
        read: Callable[[Raw], Record],
        put: Callable[[Record], None],
        drop: Callable[[str], None],
        read_rest: Callable[[Raw], Record | None] | None = None,
    ) -> None:
        """read_rest: makes a record of an object without its large field, which has not changed; None if it cannot."""
        self.kind = kind
        self.faults: dict[str, tuple[str, ...]] = {}
        """The faults of each faulty object, by key."""
        self._read = read
        self._put = put
        self._drop = drop
        self._read_rest = read_rest

    def upsert(self, key: str, raw: Raw) -> None:
        """Store an object that is new or changed."""
        try:
            record = self._read(raw)
        except UserError as error:
            self._leave_out(key, str(error))
            return
        except Exception as error:  # noqa: BLE001 # a CRD without a schema accepts anything; it must not end the service
            self._leave_out(key, f"unreadable: {error!r}")
            return
        self._store(key, record)

    def upsert_rest(self, key: str, raw: Raw) -> bool:
        """Store a changed object that comes without its large field; False if the whole object is required."""
        try:
            record = None if self._read_rest is None else self._read_rest(raw)
        except Exception:  # noqa: BLE001 # reading the whole object shows the fault
            return False
        if record is None:
            return False
        self._store(key, record)
        return True

    def add(self, raw: Raw) -> Record:
        """Store an object of a cluster that is read once, and return its record; raises UserError if it is faulty."""
        record = self._read(raw)
        if record is not None:
            self._put(record)
        return record

    def delete(self, key: str) -> None:
        """Remove an object that was deleted."""
        self.faults.pop(key, None)
        with contained(Where.OBJECT, kind=self.kind, object=key):
            self._drop(key)

    def _store(self, key: str, record: Record) -> None:
        try:
            if record is None:
                self._drop(key)
            else:
                self._put(record)
            fault = getattr(record, "fault", "")
            problems = tuple(getattr(record, "problems", (fault,) if fault else ()))
        except Exception as error:  # noqa: BLE001 # a fault with one object must not affect others
            self._leave_out(key, internal_error(Where.OBJECT, error, kind=self.kind, object=key))
        else:
            self._note(key, problems)

    def _leave_out(self, key: str, fault: str) -> None:
        """Note the fault of an object, and remove its record."""
        self._note(key, [fault])
        with contained(Where.OBJECT, kind=self.kind, object=key):
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


class Store(Generic[Record]):
    """The records of one kind by key, current as of the last event."""

    def __init__(
        self,
        kind: str,
        read: Callable[[Raw], Record | None],
        key: Callable[[Record], str],
    ) -> None:
        """read: makes a record of an object; None for one that is not kept. key: namespace/name, or the name."""
        self.feed: Feed[Record | None] = Feed(kind, read, self._put, self.drop)
        """Fills the store."""
        self.arrived = Signal[[]]()
        """Emitted when a record was added or changed. Fields that do not take part in its equality do not count."""
        self.changed = Signal[[]]()
        """The same, and also when one was removed."""
        self.revision = 0
        """Grows with each change."""
        self.version = ""
        """The version in which the API server serves the kind; empty: in none that we read, as far as we know."""
        self._key = key
        self._records: dict[str, Record] = {}

    def by_key(self) -> Mapping[str, Record]:
        """The records by key, live."""
        return self._records

    def served(self) -> Mapping[str, Record] | None:
        """The same; None if the API server does not serve the kind."""
        return self._records if self.version else None

    def serve(self, version: str) -> None:
        """Note the version in which the API server serves the kind; empty if it does not."""
        self.version = version

    def put(self, record: Record) -> None:
        """Add a record, or replace the one of its key."""
        key = self._key(record)
        before = self._records.get(key)
        self._records[key] = record
        if before != record:
            self.revision += 1
            self.arrived.emit()
            self.changed.emit()

    def drop(self, key: str) -> None:
        """Remove the record of a key, if there is one."""
        if self._records.pop(key, None) is not None:
            self.revision += 1
            self.changed.emit()

    def _put(self, record: Record | None) -> None:
        if record is not None:
            self.put(record)
