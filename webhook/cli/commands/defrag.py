"""`topology-webhook defrag`: the fewest running pods to move so that what waits can start; moved only on request."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from webhook.app.rules_of_settings import rules_of
from webhook.app.settings import Settings
from webhook.cli.command import CLUSTER_SETTINGS, Output, Outputs, Snapshots, answering, read_cluster, tell, warn, write
from webhook.cli.evictions import evict_all
from webhook.cli.input.documents import InputError, Item, Source
from webhook.cli.input.live_cluster import objects
from webhook.cli.input.live_owners import read_owners
from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.offline.defrag_plan import Plan, plan_moves
from webhook.cli.render.defrag_tables import print_plan
from webhook.cli.setting_flags import with_setting_flags
from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.client import Client
from webhook.kube.resource import Resource
from webhook.model.errors import UserError
from webhook.views.as_json import as_json
from webhook.views.defragmentation import Defragments

EXIT_NO_PLAN: Final = 1
EXAMPLES: Final = """\b
Examples:
  topology-webhook defrag
  topology-webhook defrag --first 1 --apply
  topology-webhook defrag --cluster cluster.yaml -o json
"""

_PODS: Final = Resource("", "v1", "pods")
_RUNNING: Final = "status.phase=Running"
_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets")


def defrag(
    cluster: Snapshots = None,
    first: Annotated[
        int,
        typer.Option(
            "--first",
            min=1,
            max=10_000,
            metavar="NUMBER",
            help="How many of the waiting pods and gangs to plan for, in order.",
        ),
    ] = 10,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply", help="Evict the pods of the plan, all or none. Needs the right to create pods/eviction."
        ),
    ] = False,
    output: Outputs = Output.TABLE,
    **flags: str | None,
) -> None:
    """Plan the fewest moves of pods that let waiting ones start.

    Plans are made for waiting pods and gangs in the leader's order. A pod moves by being evicted, after which its
    controller creates the next one. Only pods of ReplicaSets, StatefulSets and ReplicationControllers move, and only
    if they are in no gang, have no higher priority than what waits, and can all run elsewhere. PodDisruptionBudgets
    are respected. Nothing is evicted without --apply.

    The exit code is 0 if everything that was planned for fits now or with the moves, 1 if something does not, and 2
    if the input cannot be read, the answer cannot be written, or a pod cannot be evicted.
    """
    with answering():
        if apply and cluster:
            raise InputError("--apply and --cluster exclude each other: pods of a snapshot cannot be evicted")
        settings = Settings.load(flags)
        live = _LivePods(settings.list_page_size)
        read = read_cluster(cluster or [], settings, flags, also=live.read)
        warn(read)
        pods = live.pods if not cluster else [raw for raw in read.others if raw.get("kind") == "Pod"]
        plan = plan_moves(read, pods, rules_of(settings), first)
        evicted = _apply(plan, settings) if apply else []
        write(output, _as_json(plan, evicted, applied=apply), lambda console: print_plan(plan, console))
        if apply and output is Output.TABLE:
            for key in evicted:
                print(f"evicted {key}")
    if any(view.verdict not in {Defragments.FITS, Defragments.MOVES} for view in plan.views):
        raise typer.Exit(EXIT_NO_PLAN)


# Those that affect the engine's answers, too.
with_setting_flags(defrag, (*CLUSTER_SETTINGS, "fidelity", "gang_strategy", "not_alignable", "unenforced"))


class _LivePods:
    """Reads what a plan needs beyond the rest of a live cluster."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self.pods: list[Mapping[str, Any]] = []

    async def read(self, cluster: Cluster, client: Client) -> None:
        """The objects of running pods, the PodDisruptionBudgets, and the owners of pods that wait."""
        self.pods = [raw async for raw in objects(client, _PODS.path, _RUNNING, self._page_size)]
        try:
            async for raw in objects(client, _BUDGETS.path, "", self._page_size):
                cluster.add_disruption_budget(raw)
        except (APIError, UserError) as error:
            cluster.warnings.append(f"PodDisruptionBudgets cannot be read, so the plan counts none: {error}")
        source = Source(client.host, "")
        items = [Item(source, 1, 1, "", {"apiVersion": "v1", "kind": "Pod", **raw}) for raw in cluster.gated.values()]
        await read_owners(cluster, client, items)


def _apply(plan: Plan, settings: Settings) -> Sequence[str]:
    """Evict the pods of the plan. Raises InputError if one cannot be evicted."""
    if not plan.evictions:
        return []
    try:
        done = asyncio.run(evict_all(settings, plan.evictions))
    except ClusterError as error:
        raise InputError(str(error)) from error
    if done.refused:
        for key in done.evicted:
            tell(f"evicted {key}")
        raise InputError(f"{done.refused}. {'No other' if done.evicted else 'No'} pod was evicted")
    return done.evicted


def _as_json(plan: Plan, evicted: Sequence[str], *, applied: bool) -> Mapping[str, Any]:
    return {
        "plan": as_json(plan.views),
        "leftOut": plan.left_out,
        "unmovable": as_json(dict(sorted(plan.running.unmovable.items()))),
        "applied": applied,
        "evicted": list(evicted),
    }
