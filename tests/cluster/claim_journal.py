"""Which claims had which devices, from the changes of a watch, in their order."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.cluster.follow import ERROR, LISTED, followed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.cluster.api import Api

DRA = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DRA}/resourceclaims"
Device = tuple[str, str, str]
"""Driver, pool and name."""


class ClaimJournal:
    """The claims of all namespaces. Use `following()`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, set[Device]] = {}
        self._devices: defaultdict[str, dict[str, set[Device]]] = defaultdict(dict)
        self._had: set[str] = set()
        self.twice: dict[Device, set[str]] = {}
        """Devices that two claims had at the same time, and the claims, unless one got others before its pod ran.

        A leader whose watch is behind may allocate a device that its predecessor has just allocated. It takes that
        back before it ungates the pod. A claim that is made from a template gets devices again in no other case.
        """

    @classmethod
    @contextlib.contextmanager
    def following(cls, api: Api) -> Iterator[ClaimJournal]:
        """Follow the claims within this context."""
        journal, ended = cls(), threading.Event()

        def follow() -> None:
            for kind, found in followed(api, CLAIMS, ended):
                if kind == LISTED:
                    journal.take_list(found["items"])
                elif kind != ERROR:  # another list follows it
                    journal.take(kind, found)

        threading.Thread(target=follow, name="claims", daemon=True).start()
        try:
            yield journal
        finally:
            ended.set()

    def devices(self) -> dict[str, set[Device]]:
        """The last devices of each pod that a claim with some was ever reserved for, by the pod's uid."""
        with self._lock:
            return {uid: set().union(*claims.values()) for uid, claims in self._devices.items()}

    def take_list(self, raws: Sequence[Mapping[str, Any]]) -> None:
        """Apply a list of all claims: others are gone."""
        now = {_key(raw): devices_of(raw) for raw in raws}
        with self._lock:  # First, for what they had may have been given to others meanwhile.
            self._held = {key: held for key, held in self._held.items() if now.get(key) == held}
        for raw in raws:
            self.take("ADDED", raw)

    def take(self, kind: str, raw: Mapping[str, Any]) -> None:
        """Apply one change: ADDED, MODIFIED, DELETED."""
        key = _key(raw)
        devices = set() if kind == "DELETED" else devices_of(raw)
        with self._lock:
            if devices and not self._held.get(key) and key in self._had:
                self.twice = {device: keys for device, keys in self.twice.items() if key not in keys}
            if devices:
                self._had.add(key)
            for other, held in self._held.items():
                if other != key:
                    for device in held & devices:
                        self.twice.setdefault(device, {other}).add(key)
            self._held[key] = devices
            for uid in reserved_for(raw) if devices else ():
                self._devices[uid][key] = devices


def devices_of(claim: Mapping[str, Any]) -> set[Device]:
    """The devices that a claim has."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return {(each["driver"], each["pool"], each["device"]) for each in results}


def reserved_for(claim: Mapping[str, Any]) -> set[str]:
    """The uids of the pods that may use a claim."""
    return {each["uid"] for each in (claim.get("status") or {}).get("reservedFor") or ()}


def left_over(claims: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> list[str]:
    """The claims with devices that no pod of these may use, each as namespace/name."""
    there = {pod["metadata"]["uid"] for pod in pods}
    return [_key(raw) for raw in claims if devices_of(raw) and not reserved_for(raw) & there]


def _key(claim: Mapping[str, Any]) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
