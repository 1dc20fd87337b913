"""The nodes, what exporters publish of them, and the pods that wait."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from webhook.cli.doctor.finding import Finding, fail, ok, some, warn
from webhook.cli.doctor.release import Release
from webhook.engine.snapshot.node_kind import enforces_nothing, unknown_policy
from webhook.formats.kubernetes.gates import has_gate
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.formats.nrt import NodeTopology
from webhook.formats.topology import Topology
from webhook.kube.api_errors import mapping_or_empty
from webhook.kube.discovery import KAI_TOPOLOGIES, KUEUE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGIES, locate
from webhook.kube.resource import Resource
from webhook.model.errors import UserError
from webhook.model.policy import NUMAPolicy
from webhook.model.raw import Raw
from webhook.model.wording import counted
from webhook.views.audit.actions import repeated_text
from webhook.views.audit.node_findings import level_views
from webhook.views.nodes import is_silent

# Two periods of an exporter, as settings.advanced.nrtAgeSeconds.
_FRESH_SECONDS: Final = 120
_EXPORTERS: Final = "install node-feature-discovery, resource-topology-exporter or koordlet (docs/tutorial.md)"


@dataclass(slots=True)
class Fleet:
    """The nodes and their topologies, as the service reads them, and the last exclusive pod of each node."""

    nodes: dict[str, Node] = field(default_factory=dict)
    topologies: dict[str, NodeTopology] = field(default_factory=dict)
    bound: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Node -> when its last pod with exclusive resources was bound, and that pod's key."""
    strict: list[tuple[str, str]] = field(default_factory=list)
    """The bound pods that ask for Restricted or SingleNUMANode: node, and the pod's key."""
    waiting: list[int] = field(default_factory=list)
    """When the gated pods were created."""


async def read_fleet(release: Release) -> Fleet:
    """List nodes, topologies and pods once."""
    fleet = Fleet()
    async for raw in release.items(Resource("", "v1", "nodes")):
        node = Node.from_object(raw)
        fleet.nodes[node.name] = node
    served = await locate(release.client, NODE_RESOURCE_TOPOLOGIES)
    if served is not None:
        async for raw in release.items(served):
            topology = NodeTopology.from_object(raw)
            fleet.topologies[topology.node] = topology
    async for raw in release.items(Resource("", "v1", "pods")):
        take_pod(fleet, raw)
    return fleet


def take_pod(fleet: Fleet, raw: Raw) -> None:
    """Count a pod."""
    if has_gate(raw):
        fleet.waiting.append(epoch_seconds(raw["metadata"].get("creationTimestamp")) or 0)
        return
    try:
        pod = ResidentPod.from_object(raw)
    except UserError:  # the service leaves it out as well
        return
    if pod.node and not pod.terminal and (pod.policy or 0) >= NUMAPolicy.RESTRICTED:
        fleet.strict.append((pod.node, pod.key))
    if pod.node and pod.exclusive_resources and not pod.terminal:
        since = _bound_at(raw)
        fleet.bound[pod.node] = max(fleet.bound.get(pod.node, (0, "")), (since, pod.key))


def _bound_at(raw: Raw) -> int:
    conditions: Iterable[Mapping[str, object]] = mapping_or_empty(raw.get("status")).get("conditions") or ()
    times = (epoch_seconds(each.get("lastTransitionTime")) for each in conditions if each.get("type") == "PodScheduled")
    return next((time for time in times if time is not None), 0)


def judge_exporters(fleet: Fleet, now: float) -> list[Finding]:
    """Whether each node publishes its NUMA nodes, and goes on doing so."""
    published = [name for name in fleet.nodes if name in fleet.topologies and fleet.topologies[name].zones]
    if fleet.nodes and not published:
        return [fail("no node has a NodeResourceTopology with NUMA nodes: pods with a NUMA policy wait", _EXPORTERS)]
    found = []
    if missing := sorted(fleet.nodes.keys() - set(published)):
        found.append(
            warn(
                f"{len(missing)} of {counted(len(fleet.nodes), 'node')} publish no NUMA nodes: {some(missing)}",
                f"pods with a strict policy avoid them. If they should not, {_EXPORTERS}",
            )
        )
    if stale := sorted(_stale(fleet, now)):
        found.append(
            warn(
                f"not written since a pod was bound there more than {_FRESH_SECONDS} s ago: {some(stale)}",
                "is the exporter running on these nodes, and may it update noderesourcetopologies?",
            )
        )
    if gone := sorted(fleet.topologies.keys() - fleet.nodes.keys()):
        found.append(warn(f"of nodes that do not exist: {some(gone)}", "delete these noderesourcetopologies"))
    return found or [ok(f"{len(published)} of {counted(len(fleet.nodes), 'node')} publish their NUMA topology")]


def _stale(fleet: Fleet, now: float) -> Sequence[str]:
    """Nodes whose exporter should have shown a pod by now."""
    return [
        name
        for name, (since, _) in fleet.bound.items()
        if (topology := fleet.topologies.get(name)) is not None and is_silent(topology, since, now, _FRESH_SECONDS)
    ]


def judge_policies(fleet: Fleet) -> list[Finding]:
    """Whether each node's policy is readable, and named alike by label and exporter."""
    unknown, disagree = [], []
    for name, node in sorted(fleet.nodes.items()):
        topology = fleet.topologies.get(name)
        if text := unknown_policy(node, topology):
            unknown.append(f"{name} ({text})")
        elif node.policy_label is not None and topology is not None and node.policy_label != topology.policy:
            disagree.append(f"{name} (label {node.policy_label.name}, topology {topology.policy.name})")
    found = []
    if unknown:
        found.append(
            warn(f"policies that cannot be read: {some(unknown)}", "pods avoid these nodes: correct label or exporter")
        )
    if disagree:
        found.append(
            warn(
                f"label and NodeResourceTopology name different policies: {some(disagree)}",
                "the label wins: remove it, or correct the kubelet's configuration",
            )
        )
    weak = {name for name, node in fleet.nodes.items() if enforces_nothing(node, fleet.topologies.get(name))}
    if pods := sorted(key for name, key in fleet.strict if name in weak):
        ask = "asks" if len(pods) == 1 else "ask"
        found.append(
            warn(
                f"{counted(len(pods), 'pod')} {ask} for a strict NUMA policy on nodes that enforce none "
                f"({len(weak)} of {len(fleet.nodes)}, policy none): {some(pods)}",
                "set the kubelets' topologyManagerPolicy, or forbid it with settings.unenforced=Deny",
            )
        )
    return found or [ok(f"{counted(len(fleet.nodes), 'node')}: all policies are readable, and no two sources disagree")]


async def levels(release: Release, fleet: Fleet) -> list[Finding]:
    """Whether the nodes have the labels of the Topologies' levels."""
    topologies = []
    for wanted in (KAI_TOPOLOGIES, KUEUE_TOPOLOGIES):
        served = await locate(release.client, wanted)
        if served is not None:
            async for raw in release.items(served):
                try:
                    topologies.append(Topology.from_object(raw))
                except UserError as error:  # the service leaves it out as well
                    return [warn(f"a Topology cannot be read: {error}", "correct or delete it")]
    return judge_levels(fleet, topologies)


def judge_levels(fleet: Fleet, topologies: Collection[Topology]) -> list[Finding]:
    """Whether each node has a domain at each level, and each domain a name of its own."""
    found = []
    for view in level_views(fleet.nodes, topologies):
        level = f"{view.level} of Topology {view.topology}"
        if view.lacking:
            text = f"no node has the label {level}"
            if len(view.lacking) < len(fleet.nodes):
                count = f"{len(view.lacking)} of {counted(len(fleet.nodes), 'node')}"
                text = f"{count} lack the label {level}: {some(view.lacking)}"
            cure = "label the nodes: without it a node is in no domain of this level or of a finer one"
            found.append(warn(text, cure))
        if view.repeated:
            cure = "they count as different domains. If one is meant, correct the labels"
            found.append(warn(f"{level} in several domains: {some(list(map(repeated_text, view.repeated)))}", cure))
    return found or [
        ok(f"{counted(len(topologies), 'Topology', 'Topologies')}: every node is in a domain at each level")
    ]


def judge_waiting(fleet: Fleet, now: float, *, placed: bool) -> list[Finding]:
    """placed: whether anything ungates pods, that is a leader and the webhook configurations."""
    if not fleet.waiting:
        return [ok("no pod is gated")]
    text = (
        f"{counted(len(fleet.waiting), 'pod is', 'pods are')} gated, the oldest for {_span(now - min(fleet.waiting))}"
    )
    if placed:
        return [ok(text)]
    return [
        fail(
            f"{text}, and no leader places pods",
            "repair the leader; or let the scheduler place them: topology-webhook ungate --all",
        )
    ]


def _span(seconds: float) -> str:
    whole = max(0, int(seconds))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if whole >= 2 * length:
            return f"{whole // length} {unit}"
    return f"{whole} s"
