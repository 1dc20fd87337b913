"""What to do about the findings, in order: first what placement needs to know, then what it changes."""

from collections.abc import Iterator, Sequence
from typing import Final

from webhook.model.names import KUBELET_OPTIONS
from webhook.model.options import Manage
from webhook.model.wording import counted, quoted
from webhook.views.audit.node_findings import NodesView, RepeatedName
from webhook.views.audit.rejections import RejectionView
from webhook.views.audit.spanning_pods import SpanningPodView
from webhook.views.audit.split_gangs import SplitGangView

# Names in one sentence; the findings have all of them.
_NAMED: Final = 5


def actions(
    rejections: Sequence[RejectionView],
    spanning: Sequence[SpanningPodView],
    gangs: Sequence[SplitGangView],
    nodes: NodesView,
) -> tuple[str, ...]:
    """The steps as sentences; empty if there are no findings."""
    prepare = (
        *_about_nodes(nodes),
        *_about_options(nodes),
        *_about_unenforced(nodes),
        *_about_spanning(spanning),
    )
    change = (*_about_rejections(rejections), *_about_gangs(gangs))
    if not (rejections or spanning or gangs):
        return prepare
    return (
        *prepare,
        *change,
        "Install topology-webhook with settings.mode=Observe: its Events say what it would do with these pods.",
        "Switch to settings.mode=Enforce.",
    )


def _about_nodes(nodes: NodesView) -> Iterator[str]:
    if nodes.without_topology:
        yield (
            f"Run an exporter of NodeResourceTopologies on {counted(len(nodes.without_topology), 'node')}: "
            f"{_names(nodes.without_topology)}. Pods with a strict policy are not placed there."
        )
    if nodes.unreadable:
        yield (
            f"Correct the unreadable NUMA policy of {counted(len(nodes.unreadable), 'node')}: "
            f"{_names([one.node for one in nodes.unreadable])}."
        )
    if nodes.disagreeing:
        yield (
            "Make the label node.koordinator.sh/numa-topology-policy agree with the kubelet's policy on "
            f"{counted(len(nodes.disagreeing), 'node')}: {_names([one.node for one in nodes.disagreeing])}."
        )
    if nodes.unreported:
        names = list(dict.fromkeys(one.node for one in nodes.unreported))
        yield (
            f"Check the exporter of NodeResourceTopologies on {counted(len(names), 'node')}: {_names(names)}. It shows "
            "less in use than running pods hold, so that pods may be placed on NUMA nodes that are full."
        )
    for level in nodes.levels:
        if level.lacking:
            yield (
                f"Label {counted(len(level.lacking), 'node')} with {_names([level.level])} (Topology "
                f"{_names([level.topology])}): {_names(level.lacking)}. Without it a node is in no domain of this "
                "level or of a finer one."
            )
        if level.repeated:
            yield (
                f"Check the values of the label {_names([level.level])} that occur in several domains above (Topology "
                f"{_names([level.topology])}): {_names([repeated_text(one) for one in level.repeated])}. They count as "
                "different domains."
            )


def repeated_text(one: RepeatedName) -> str:
    """`rack-1 (block-a, block-b)`."""
    return f"{one.name} ({_names(one.above)})"


def _about_options(nodes: NodesView) -> Iterator[str]:
    unstated = [(one.node, one.unstated) for one in nodes.kubelet_options if one.unstated]
    if unstated:
        yield (
            f"State the options of the kubelets of {counted(len(unstated), 'node')} in the annotation "
            f"{KUBELET_OPTIONS}: {_names([f'{node} ({options})' for node, options in unstated])}. They are known from "
            "rejected pods alone, and each namespace learns them by one of its own."
        )


def _about_unenforced(nodes: NodesView) -> Iterator[str]:
    if nodes.not_enforced_pods:
        yield (
            f"Give {counted(len(nodes.not_enforcing), 'node')} a topologyManagerPolicy, or set "
            "settings.unenforced=Deny: "
            f"nothing there enforces the strict NUMA policy of {counted(len(nodes.not_enforced_pods), 'pod')}: "
            f"{_names(nodes.not_enforced_pods)}."
        )


def _about_spanning(spanning: Sequence[SpanningPodView]) -> Iterator[str]:
    if spanning:
        on = sorted({one.node for one in spanning})
        yield (
            f"Set topologyManagerPolicy to restricted or single-numa-node in the kubelet's configuration of "
            f"{counted(len(on), 'node')}, where pods span NUMA nodes although one could hold them: {_names(on)}."
        )


def _about_rejections(rejections: Sequence[RejectionView]) -> Iterator[str]:
    """Each workload by the narrowest value of `manage`: one with an annotation needs no other setting.

    No setting helps pods without such a value: another scheduler or a DaemonSet places them, or they are gone.
    """
    aligned = [one for one in rejections if one.manage is Manage.ALIGNED]
    other = [one for one in rejections if one.manage is Manage.ALL]
    if aligned:
        yield (
            f"Set settings.manage=Aligned, or annotate the pod templates with a numaTopologyPolicy, for "
            f"{counted(len(aligned), 'workload')} whose pods kubelets reject: {_workloads(aligned)}."
        )
    if other:
        yield (
            f"Annotate the pod templates of {counted(len(other), 'workload')} whose pods kubelets reject, and which "
            f"settings.manage=Aligned does not cover: {_workloads(other)}."
        )


def _about_gangs(gangs: Sequence[SplitGangView]) -> Iterator[str]:
    if gangs:
        names = list(dict.fromkeys(f"{one.namespace}/{one.name}" for one in gangs))
        yield (
            f"Annotate {counted(len(names), 'gang')} whose pods run in several domains with kai.scheduler/topology and "
            f"kai.scheduler/topology-preferred-placement or -required-placement: {_names(names)}."
        )


def _workloads(rejections: Sequence[RejectionView]) -> str:
    return _names([f"{one.workload.kind} {one.workload.namespace}/{one.workload.name}" for one in rejections])


def _names(names: Sequence[str]) -> str:
    shown = [name if name.isprintable() else quoted(name) for name in names[:_NAMED]]
    more = [f"and {len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*shown, *more])
