"""The history of every pod, and whether anything was assigned twice or split, from the changes of a watch.

Everything is computed from the objects, in the order of their changes. The caller of `take` gives the times.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.chaos.load import ALIGNED, RUN_LABEL, UNIT_LABEL
from tests.cluster.audit import Slot, held
from tests.cluster.follow import ERROR, LISTED, followed
from tests.cluster.gated import NUMA, PLACEMENT, SPEC, is_gated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.chaos.load import Unit
    from tests.cluster.api import Api

TERMINAL_PHASES = ("Succeeded", "Failed")
INHERIT = "topology-webhook.dev/inherit"


@dataclass
class History:
    """The history of one pod."""

    name: str
    namespace: str
    uid: str
    unit: str
    created: float
    """When it was first seen, in seconds of `time.monotonic`."""
    job: bool
    seen: bool
    """Whether the webhook was asked when it was created: it has our gate, or a placement, from the beginning."""
    inherits: bool
    """Whether it takes what stands on its owner."""
    bound: float | None = None
    node: str = ""
    since: float | None = None
    """Since when it runs: it is bound, and its kubelet, if there is one, started its containers."""
    rejected: str = ""
    """The reason with which its kubelet rejected it, or ended it unasked."""
    unallocated: bool = False
    """Bound without a decision of the webhook although it asked for a policy."""
    gone: bool = False
    told: str = ""
    """Its placement text."""
    holds: Mapping[Slot, Decimal] = field(default_factory=dict)
    """What its allocation says, once it is bound."""


class Journal:
    """The pods of one run.

    capacity: of each NUMA node; racks: the rack of each node; has_kubelets: whether kubelets say which pods run.
    """

    def __init__(
        self, capacity: Mapping[Slot, Decimal], racks: Mapping[str, str], *, has_kubelets: bool = False
    ) -> None:
        self._capacity = capacity
        self._has_kubelets = has_kubelets
        self._racks = racks
        self._lock = threading.RLock()
        self._held: defaultdict[Slot, Decimal] = defaultdict(Decimal)
        self._pods: dict[str, History] = {}
        self.over_committed: dict[Slot, Decimal] = {}
        """What was ever held beyond what there is, at its worst."""
        self.holders: dict[Slot, list[str]] = {}
        """The pods that held it then."""
        self.scattered: dict[str, set[str]] = {}
        """Unit -> the racks, more than one, in which its pods were bound at the same time."""
        self.excused: set[str] = set()
        """Uids of pods that a scenario has deleted."""

    @contextlib.contextmanager
    def following(self, api: Api, run: str) -> Iterator[None]:
        """Follow the pods of a run in all namespaces."""
        ended = threading.Event()

        def follow() -> None:
            for kind, found in followed(api, f"/api/v1/pods?labelSelector={RUN_LABEL}%3D{run}", ended):
                if kind == LISTED:
                    self.take_list(found["items"], time.monotonic())
                elif kind != ERROR:  # another list follows it
                    self.take(kind, found, time.monotonic())

        threading.Thread(target=follow, name="journal", daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def pods(self) -> list[History]:
        """All pods that ever existed, in order of creation."""
        with self._lock:
            return list(self._pods.values())

    def of(self, unit: Unit) -> list[History]:
        """The pods of a unit that ever existed."""
        return [pod for pod in self.pods() if pod.unit == unit.name]

    def has_run(self, unit: Unit, seconds: float) -> bool:
        """Whether all pods of a unit have run for this long."""
        since = time.monotonic() - seconds
        pods = [pod for pod in self.of(unit) if not pod.gone]
        return len(pods) == unit.size and all(pod.since is not None and pod.since < since for pod in pods)

    def replace_machine(self, node: str, capacity: Mapping[Slot, Decimal]) -> None:
        """From now on a node has these NUMA nodes instead of those it had; it must hold no pod."""
        with self._lock:
            others = {slot: amount for slot, amount in self._capacity.items() if slot.node != node}
            self._capacity = {**others, **capacity}

    def take_list(self, raws: list[dict[str, Any]], now: float) -> None:
        """Apply a list of all pods: others are gone."""
        with self._lock:
            there = {raw["metadata"]["uid"] for raw in raws}
            # First, for what they held may have been given to others meanwhile.
            for uid in self._pods.keys() - there:
                self._leave(self._pods[uid])
            for raw in raws:
                self.take("ADDED", raw, now)

    def take(self, kind: str, raw: dict[str, Any], now: float) -> None:
        """Apply one change: ADDED, MODIFIED, DELETED."""
        uid = raw["metadata"]["uid"]
        with self._lock:
            pod = self._pods.get(uid)
            if pod is None:
                pod = self._pods[uid] = _first_seen(raw, now)
            pod.told = _annotations(raw).get(PLACEMENT, "")
            if kind == "DELETED":
                self._leave(pod)
                return
            node = raw["spec"].get("nodeName", "")
            if node and pod.bound is None:
                pod.bound, pod.node, pod.unallocated = now, node, _is_unallocated(raw)
                self._look_for_scattered(pod.unit)
            status = raw.get("status") or {}
            if "deletionTimestamp" not in raw["metadata"]:  # else its containers fail because they are ended
                self._look_at_phase(pod, status, now)
            if status.get("phase") in TERMINAL_PHASES:
                self._hold(pod, {})
            elif node:
                self._hold(pod, held([raw]) if _allocated_node(raw) == node else {})

    def _look_at_phase(self, pod: History, status: Mapping[str, Any], now: float) -> None:
        phase = status.get("phase", "")
        if phase == "Failed":
            pod.rejected, pod.since = status.get("reason", "") or "failed", None
        elif pod.bound is not None and pod.since is None and (phase == "Running" or not self._has_kubelets):
            pod.since = now

    def _leave(self, pod: History) -> None:
        pod.gone = True
        self._hold(pod, {})

    def _hold(self, pod: History, amounts: Mapping[Slot, Decimal]) -> None:
        for slot, amount in pod.holds.items():
            self._held[slot] -= amount
        pod.holds = amounts
        for slot, amount in amounts.items():
            self._held[slot] += amount
            beyond = self._held[slot] - self._capacity.get(slot, Decimal(0))
            if beyond > self.over_committed.get(slot, Decimal(0)):
                self.over_committed[slot] = beyond
                self.holders[slot] = [other.name for other in self._pods.values() if slot in other.holds]

    def _look_for_scattered(self, unit: str) -> None:
        bound = [pod for pod in self._pods.values() if pod.unit == unit and pod.bound is not None and not pod.gone]
        racks = {self._racks[pod.node] for pod in bound}
        if len(racks) > 1:
            self.scattered[unit] = racks


def _first_seen(raw: dict[str, Any], now: float) -> History:
    metadata = raw["metadata"]
    return History(
        metadata["name"],
        metadata["namespace"],
        metadata["uid"],
        metadata["labels"][UNIT_LABEL],
        now,
        job=any(owner["kind"] == "Job" for owner in metadata.get("ownerReferences", ())),
        seen=is_gated(raw) or PLACEMENT in _annotations(raw),
        inherits=INHERIT in _annotations(raw),
    )


def _is_unallocated(raw: dict[str, Any]) -> bool:
    annotations = _annotations(raw)
    if SPEC not in annotations:
        return False
    policy = json.loads(annotations[SPEC]).get("numaTopologyPolicy", "")
    unallocated = policy in ALIGNED and _allocated_node(raw) != raw["spec"]["nodeName"]
    return PLACEMENT not in annotations or unallocated


def _allocated_node(raw: dict[str, Any]) -> str:
    return str(json.loads(_annotations(raw).get(NUMA, "{}")).get("node", ""))


def _annotations(raw: dict[str, Any]) -> Mapping[str, str]:
    return raw["metadata"].get("annotations") or {}
