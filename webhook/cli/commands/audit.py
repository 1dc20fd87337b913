"""`topology-webhook audit`: what is wrong in the cluster as it is, and what to do about it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from webhook.app.rules_of_settings import rules_of
from webhook.app.settings import Settings
from webhook.cli.command import (
    CLUSTER_SETTINGS,
    Output,
    Outputs,
    Snapshots,
    answering,
    read_cluster,
    tell,
    warn,
    write,
)
from webhook.cli.input.documents import InputError
from webhook.cli.input.live_cluster import connect, objects
from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.render.audit_tables import print_audit
from webhook.cli.setting_flags import with_setting_flags
from webhook.formats.kubernetes.rejected_pod import EVENT_REASONS
from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.resource import Resource
from webhook.model.errors import UserError
from webhook.state.management import DEFAULT_NAMESPACE
from webhook.views.as_json import as_json
from webhook.views.audit.auditor import Auditor

EXAMPLES: Final = """\b
Examples:
  topology-webhook audit
  topology-webhook audit --cluster cluster.yaml -o json
"""

_PODS: Final = Resource("", "v1", "pods")
_EVENTS: Final = Resource("", "v1", "events")

_Take = Callable[[Mapping[str, Any]], None]


def audit(cluster: Snapshots = None, output: Outputs = Output.TABLE, **flags: str | None) -> None:
    """Show what is wrong in the cluster, and what to do about it.

    Audit finds pods that kubelets rejected, pods that span NUMA nodes although one could hold them, gangs over
    several racks that one rack could have taken, and nodes without a NodeResourceTopology or with two policies. It
    also counts the pods that each value of `manage` would cover. It needs no installed service, and changes nothing.

    The exit code is 0, or 2 if the input cannot be read or the answer cannot be written.
    """
    with answering():
        settings = Settings.load(flags)
        read = read_cluster(cluster or [], settings, flags)
        auditor = Auditor(read.cache, rules_of(settings))
        if cluster:
            _take_snapshot(read, auditor)
        else:
            _take_live(read, auditor, settings)
        warn(read)
        view = auditor.view()
        write(output, as_json(view), lambda console: print_audit(view, console))


with_setting_flags(audit, CLUSTER_SETTINGS)


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
    async with await connect(settings) as client:

        async def each(resource: Resource, selector: str, take: _Take) -> None:
            async for raw in objects(client, resource.path, selector, settings.list_page_size):
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
