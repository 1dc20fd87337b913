"""What a component wrote on pods that belong to another one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.cluster.gated import GATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.cluster.kubelets import Kubelets
    from webhook.model.raw import Draft

OURS = "topology-webhook"


def gates(raw: Draft) -> set[str]:
    return {gate["name"] for gate in raw["spec"].get("schedulingGates", ())}


def writers(raw: Draft) -> set[str]:
    """The programs that changed a pod, by its managed fields."""
    return {entry["manager"] for entry in raw["metadata"].get("managedFields", ())}


def touched_by_us(raw: Draft) -> list[str]:
    """What of a pod is from this service: its gate, annotations, labels, and terms that name nodes."""
    metadata = raw["metadata"]
    keys = [key for part in ("annotations", "labels") for key in metadata.get(part, {}) if key.startswith(OURS)]
    affinity = ["nodeAffinity"] if "nodeAffinity" in raw["spec"].get("affinity", {}) else []
    return [*keys, *affinity, *(gates(raw) & {GATE}), *(name for name in writers(raw) if name.startswith(OURS))]


def touched_by(raw: Draft, prefixes: tuple[str, ...], programs: Iterable[str]) -> list[str]:
    """What of a pod is from another component: keys and gates with its prefixes, and writes of its programs."""
    metadata = raw["metadata"]
    keys = [key for part in ("annotations", "labels") for key in metadata.get(part, {}) if key.startswith(prefixes)]
    return [*keys, *(name for name in gates(raw) if name.startswith(prefixes)), *(writers(raw) & set(programs))]


def holders(kubelets: Kubelets) -> Mapping[tuple[str, str], int]:
    """(Node, NUMA node) -> how many running pods have its CPUs, by the kubelets' own journal."""
    ended = {event["uid"] for event in kubelets.events("ended")}
    given: Counter[tuple[str, str]] = Counter()
    for event in kubelets.events("admitted"):
        if event["uid"] not in ended:
            given.update(
                {(event["node"], numa) for each in event["containers"] for numa in each.get("cpusPerNuma", ())}
            )
    return given
