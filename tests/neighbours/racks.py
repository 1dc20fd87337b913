"""Machines with a kubelet in two racks, and what became of the pods that an operator made for them.

    rack-0 ── m-0-0 m-0-1      rack-1 ── m-1-0 m-1-1 m-1-2      [each has 2 NUMA nodes of 16 CPUs, a pod takes one]

So a gang of five fits into rack-1 alone.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.gated import NUMA, Pods, pod
from tests.cluster.kubelets import even_machine
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL

if TYPE_CHECKING:
    from tests.cluster.kubelets import Kubelets

SIZES: Final = (2, 3)
"""Machines of each rack."""
MACHINES: Final = tuple(
    even_machine(f"m-{rack}-{number}", labels={RACK_LABEL: f"rack-{rack}", ZONE_LABEL: "zone-0"})
    for rack, size in enumerate(SIZES)
    for number in range(size)
)
GROUP: Final = "pod-group-name"


def template() -> dict[str, Any]:
    """A pod template without annotations: a container that takes a whole NUMA node."""
    return {"metadata": {"labels": {"app": "w"}}, "spec": pod("", cpu=16)["spec"]}


def uids(pods: Pods) -> dict[str, str]:
    """Pod name -> UID of those that are bound and do not end."""
    live = {name: raw for name, raw in pods.all().items() if "deletionTimestamp" not in raw["metadata"]}
    return {name: raw["metadata"]["uid"] for name, raw in live.items() if raw["spec"].get("nodeName")}


def gangs(pods: Pods) -> dict[str, set[str]]:
    """Gang -> the names of its pods."""
    found: dict[str, set[str]] = {}
    for name, raw in pods.all().items():
        found.setdefault(raw["metadata"].get("annotations", {}).get(GROUP, ""), set()).add(name)
    return found


def racks(pods: Pods, names: set[str]) -> set[str]:
    """The racks of these pods, by the names of their nodes."""
    nodes = pods.bound()
    return {f"rack-{nodes[name].split('-')[1]}" for name in names}


def is_aligned(pods: Pods, kubelets: Kubelets) -> None:
    """Assert that each pod has the CPUs of a NUMA node of its own, and that every kubelet admitted its pods.

    An init container that an operator adds may have its memory near other CPUs.
    """
    given: Counter[tuple[str, int]] = Counter()
    for raw in pods.all().values():
        allocation = json.loads(raw["metadata"]["annotations"][NUMA])
        assert allocation["node"] == raw["spec"]["nodeName"]
        given.update(
            (allocation["node"], entry["node"])
            for entry in allocation["numaNodeResources"]
            if "cpu" in entry["resources"]
        )
    assert given.total() == len(pods.all())
    assert set(given.values()) == {1}
    assert kubelets.events("rejected") == []
