"""The history of every pod, from a watch: when it was created, bound, running, ended, or rejected by a kubelet.

Times are the observer's, in seconds since the start of the run. Those in API objects are whole seconds only.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.cluster.api import ApiError
from tests.cluster.follow import ERROR, LISTED, followed
from tests.proof.workload import WORKLOAD_LABEL
from webhook.model.names import NUMA_ALLOCATION, NUMA_TOPOLOGY_SPEC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.api import Api

REJECTED = "Pod was rejected: "
"""What a kubelet writes in front of its reason."""


@dataclass
class History:
    """The times of one pod; None for a state that it did not reach."""

    name: str
    workload: str
    created: float
    node: str = ""
    bound: float | None = None
    running: float | None = None
    ended: float | None = None
    """Failed, succeeded or deleted."""
    rejected: str = ""
    """The kubelet's reason, such as TopologyAffinityError."""
    asks: bool = False
    """Whether it is annotated to be placed."""
    allocations: list[tuple[float, str]] = field(default_factory=list)
    """Each allocation that it had since it was bound, "" for none, and when it was first seen with that."""

    def take(self, event: str, pod: Mapping[str, Any], now: float) -> None:
        """Apply an event of the watch."""
        status = pod.get("status", {})
        annotations = pod["metadata"].get("annotations", {})
        allocation, self.asks = annotations.get(NUMA_ALLOCATION, ""), NUMA_TOPOLOGY_SPEC in annotations
        self.node = pod["spec"].get("nodeName", "")
        if self.node and self.bound is None:
            self.bound = now
        if self.node and allocation != (self.allocations[-1][1] if self.allocations else None):
            self.allocations.append((now, allocation))
        phase = status.get("phase")
        if phase in {"Running", "Succeeded"} and self.running is None:
            self.running = now
        if self.ended is None and (event == "DELETED" or phase in {"Failed", "Succeeded"}):
            self.ended = now
        if status.get("message", "").startswith(REJECTED):
            self.rejected = status.get("reason", "")


class PodObserver:
    """The pods of one namespace. Use `observing()`."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._histories: dict[str, History] = {}
        self._last: dict[str, Mapping[str, Any]] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error: ApiError | None = None
        self.start = time.monotonic()

    @classmethod
    @contextlib.contextmanager
    def observing(cls, api: Api, namespace: str) -> Iterator[PodObserver]:
        """Follow the pods. None may exist yet."""
        observer = cls(api, namespace)
        threading.Thread(target=observer._follow, name="observer", daemon=True).start()
        try:
            yield observer
        finally:
            observer._ended.set()

    @property
    def now(self) -> float:
        """Seconds since the start of the run."""
        return time.monotonic() - self.start

    def histories(self) -> list[History]:
        """All pods so far, in order of creation. Raises `ApiError` if some may be missing."""
        return list(self.by_uid().values())

    def by_uid(self) -> dict[str, History]:
        """The same by the pods' uids."""
        if self._error is not None:
            raise self._error
        with self._lock:
            return {
                uid: replace(history, allocations=list(history.allocations)) for uid, history in self._histories.items()
            }

    def last_seen(self, name: str) -> Mapping[str, Any]:
        """The last known object of a pod."""
        with self._lock:
            return next(pod for pod in self._last.values() if pod["metadata"]["name"] == name)

    def _follow(self) -> None:
        for kind, found in followed(self._api, f"/api/v1/namespaces/{self._namespace}/pods", self._ended):
            if kind == ERROR:
                self._error = ApiError(found["code"], found["reason"], found["message"])
                return
            if kind != LISTED:  # there were none
                self._take(kind, found)

    def _take(self, event: str, pod: Mapping[str, Any]) -> None:
        now, metadata = self.now, pod["metadata"]
        with self._lock:
            if metadata["uid"] not in self._histories:
                labels = metadata.get("labels", {})
                self._histories[metadata["uid"]] = History(metadata["name"], labels.get(WORKLOAD_LABEL, ""), now)
            self._histories[metadata["uid"]].take(event, pod, now)
            self._last[metadata["uid"]] = pod
