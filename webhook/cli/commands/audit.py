"""`topology-webhook audit`: what is wrong in the cluster as it is, and what to do about it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from webhook.app.settings import Settings, rules_of
from webhook.cli.command import answering, read_cluster, tell, warn, working, write
from webhook.cli.flags import Output
from webhook.cli.input.documents import InputError
from webhook.cli.input.live_cluster import connected, objects
from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.render.printable import printable, shortened
from webhook.cli.render.text_table import Cell, print_line, print_table
from webhook.formats.kubernetes.rejected_pod import EVENT_REASONS
from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.resource import Resource
from webhook.model.errors import UserError
from webhook.model.resources import format_amount
from webhook.model.wording import counted
from webhook.state.management import DEFAULT_NAMESPACE
from webhook.views.as_json import as_json
from webhook.views.audit.actions import repeated_text
from webhook.views.audit.auditor import Auditor, AuditView
from webhook.views.audit.node_findings import NodesView
from webhook.views.audit.spanning_pods import UnreportedNode
from webhook.views.nodes import OptionSource

# A terminal shows these many lines of a finding; JSON has all of them.
_ROWS: Final = 20
_NAME: Final = 60
_POLICY: Final = 160
_COUNTS: Final = 3


def print_audit(view: AuditView, console: Console) -> None:
    """Print the findings: a table for each kind, then what to do."""
    _section(
        "Pods that kubelets rejected",
        ("WORKLOAD", "PODS", "REASONS", "NODES", "MANAGED WITH"),
        [
            (
                f"{one.workload.kind} {one.workload.namespace}/{one.workload.name}",
                str(one.pods),
                _counts(one.reasons),
                _counts(one.nodes),
                one.manage.value if one.manage else "-",
            )
            for one in view.rejections
        ],
        console,
    )
    _section(
        "Pods that span NUMA nodes, although one could hold them",
        ("POD", "NODE", "NUMA NODES", "COULD BE ON", "SHOWN BY"),
        [
            (
                f"{one.namespace}/{one.name}",
                one.node,
                _ids(one.numa_nodes) if one.numa_nodes else "several",
                _ids(one.could_hold),
                one.shown_by.value,
            )
            for one in view.spanning_pods
        ],
        console,
    )
    _section(
        "Gangs over several domains",
        ("GANG", "PODS", "TOPOLOGY", "LEVEL", "DOMAINS", "ONE COULD TAKE"),
        [
            (
                f"{one.namespace}/{one.name}",
                str(one.pods),
                one.topology,
                one.level,
                str(one.domains),
                f"{one.best_pods} ({one.best})",
            )
            for one in view.split_gangs
        ],
        console,
    )
    _print_nodes(view.nodes, console)
    _section(
        "Pods that each value of manage would cover",
        ("MANAGE", "PODS", "NAMESPACES"),
        [(one.mode.value, str(one.pods), str(one.namespaces)) for one in view.manage],
        console,
    )
    _title("What to do", console)
    steps = [f"{number}. {printable(step)}" for number, step in enumerate(view.actions, 1)]
    for line in steps or ["Nothing: there are no findings."]:
        print_line(Text(line), console)


def _print_nodes(nodes: NodesView, console: Console) -> None:
    _title("Nodes", console)
    policies = ", ".join(f"{policy} {count}" for policy, count in nodes.policies.items())
    print_line(Text(f"{counted(nodes.total, 'node')}, by NUMA policy: {policies or 'none is known'}"), console)
    for what, names in (
        ("without a NodeResourceTopology", nodes.without_topology),
        (
            "label and NodeResourceTopology differ",
            [f"{one.node} ({one.label}, {one.published})" for one in nodes.disagreeing],
        ),
        ("pods with a strict policy where nothing enforces it", nodes.not_enforced_pods),
        ("policy cannot be read", [f"{one.node} ({one.policy})" for one in nodes.unreadable]),
        (
            "NodeResourceTopology shows less in use than pods hold",
            [f"{one.node} ({_in_use(one)})" for one in nodes.unreported],
        ),
        *((f"options of kubelets, {source.lower()}", _options(nodes, source)) for source in OptionSource),
        *((f"without the label {one.level} of Topology {one.topology}", one.lacking) for one in nodes.levels),
        *(
            (f"{one.level} of Topology {one.topology} in several domains", list(map(repeated_text, one.repeated)))
            for one in nodes.levels
        ),
    ):
        if names:
            shown = ", ".join(shortened(name, _POLICY) for name in names[:_ROWS])
            more = f", and {len(names) - _ROWS} more" if len(names) > _ROWS else ""
            print_line(Text(f"{shortened(what, _POLICY)}: {len(names)}: {shown}{more}"), console)
    print_line(Text(), console)


def _options(nodes: NodesView, source: OptionSource) -> list[str]:
    # Of stated and published ones the evidence is the same on every node.
    return [
        f"{node.node} ({one.stated_as}{f'; {one.text}' if source is OptionSource.LEARNED else ''})"
        for node in nodes.kubelet_options
        for one in node.by(source)
    ]


def _in_use(one: UnreportedNode) -> str:
    held, shown = (format_amount(one.resource, amount) for amount in (one.held, one.in_use))
    return f"{held} {one.resource}, {shown} in use"


def _section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    _title(title, console)
    if rows:
        cells = [[Cell(shortened(text, _NAME)) for text in row] for row in rows[:_ROWS]]
        print_table([[Cell(text) for text in header], *cells], console)
    else:
        print_line(Text("none"), console)
    if len(rows) > _ROWS:
        print_line(Text(f"{len(rows) - _ROWS} more with -o json", style="dim"), console)
    print_line(Text(), console)


def _title(text: str, console: Console) -> None:
    print_line(Text(text, style="bold"), console)


def _counts(counts: Mapping[str, int]) -> str:
    shown = [f"{name} {count}" for name, count in list(counts.items())[:_COUNTS]]
    more = [f"+{len(counts) - _COUNTS} more"] if len(counts) > _COUNTS else []
    return ", ".join([*shown, *more]) or "-"


def _ids(numa_ids: Sequence[int]) -> str:
    return ",".join(map(str, numa_ids))


_PODS: Final = Resource("", "v1", "pods")
_EVENTS: Final = Resource("", "v1", "events")

_Take = Callable[[Mapping[str, Any]], None]


def audit(cluster: list[str] | None, output: Output, **flags: str | None) -> None:
    """Print what is wrong in the cluster."""
    with answering():
        settings = Settings.load(flags)
        read = read_cluster(cluster or [], settings, flags)
        auditor = Auditor(read.cache, rules_of(settings))
        with working("auditing"):
            if cluster:
                _take_snapshot(read, auditor)
            else:
                _take_live(read, auditor, settings)
            view = auditor.view()
        warn(read)
        write(output, as_json(view), lambda console: print_audit(view, console))


def _take_snapshot(cluster: Cluster, auditor: Auditor) -> None:
    for raw in cluster.others:
        if raw.get("kind") == "Pod":
            metadata = raw["metadata"]
            auditor.add_pod({**raw, "metadata": {"namespace": DEFAULT_NAMESPACE, **metadata}})
        elif raw.get("kind") == "Event":
            auditor.add_event(raw)


def _take_live(cluster: Cluster, auditor: Auditor, settings: Settings) -> None:
    try:
        asyncio.run(_listed(cluster, auditor, settings))
    except ClusterError as error:
        raise InputError(str(error)) from error


async def _listed(cluster: Cluster, auditor: Auditor, settings: Settings) -> None:
    async with connected(settings) as client:

        async def each(resource: Resource, selector: str, take: _Take) -> None:
            async for raw in objects(client, resource.path, selector):
                try:
                    take(raw)
                except UserError as error:
                    cluster.warnings += [f"{resource.name}: left out: {fault}" for fault in error.faults]

        await each(_PODS, "", auditor.add_pod)
        try:
            for reason in EVENT_REASONS:
                await each(_EVENTS, f"reason={reason}", auditor.add_event)
        except APIError as error:
            if error.status != 403:
                raise
            tell(f"warning: rejected pods that are deleted are not counted: {error}")
