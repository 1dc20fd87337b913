"""`topology-webhook review`: the webhook's answers to objects, without a running webhook.

1. The objects and the cluster are read; after a fault nothing is judged.
2. Each object is judged on its own.
3. The judgements go to stdout; warnings about the cluster, and objects that `-o yaml` leaves out, to stderr.
"""

import sys
from collections.abc import Mapping, Sequence

import typer
from rich.console import Console

from webhook.app.settings import Settings, rules_of
from webhook.cli.command import answering, read_cluster, tell, working, writing
from webhook.cli.flags import EXIT_REFUSED, Output
from webhook.cli.input.configuration_file import configuration
from webhook.cli.input.documents import STDIN, InputError, Item, read, twice
from webhook.cli.input.object_reference import POD_CLIQUE_SET
from webhook.cli.input.object_schema import METADATA
from webhook.cli.input.offline_cluster import cluster_snapshots_of
from webhook.cli.input.yaml_text import dump_all
from webhook.cli.offline.bare_pods import judge_pods
from webhook.cli.offline.judgement import Judgement
from webhook.cli.offline.judgement_context import JudgementContext
from webhook.cli.offline.pod_clique_set import judge_pod_clique_set
from webhook.cli.offline.pod_group_review import POD_GROUPS, by_gang, judge_pod_group
from webhook.cli.offline.workload import judge_workload
from webhook.cli.render.judgement_json import render_json
from webhook.cli.render.judgement_table import print_table
from webhook.placing.pod.decision import Verdict
from webhook.state.cluster_snapshot import ClusterSnapshot


def review(
    filename: list[str],
    cluster: list[str] | None,
    output: Output,
    all_nodes: bool,
    config: str | None = None,
    **flags: str | None,
) -> None:
    """Print the decisions on the objects."""
    with answering():
        settings = Settings.load(flags, configuration(config))
        judgements = _judgements(filename, cluster or [], settings, flags)
        text = "" if output is Output.TABLE else _render(judgements, output, all_nodes=all_nodes)
    with writing():
        if output is Output.TABLE:
            print_table(judgements, Console(highlight=False), all_nodes=all_nodes)
        else:
            sys.stdout.write(text)
    if not all(judgement.is_fine for judgement in judgements):
        raise typer.Exit(EXIT_REFUSED)


def _judgements(
    filenames: Sequence[str], snapshots: Sequence[str], settings: Settings, flags: Mapping[str, str | None]
) -> list[Judgement]:
    if [*filenames, *snapshots].count(STDIN) > 1:
        raise InputError("stdin (-) can be read only once")
    items = list(read(filenames))
    cluster = read_cluster(snapshots, settings, flags, items)
    for warning in (*twice(items), *cluster.warnings):
        tell(f"warning: {warning}")
    around = JudgementContext.of(cluster, rules_of(settings), items)
    with working("deciding"):
        return judge_all(items, cluster_snapshots_of(items, cluster), around)


def judge_all(
    items: Sequence[Item], cluster_snapshots: Sequence[ClusterSnapshot], around: JudgementContext
) -> list[Judgement]:
    """Judge in the order of the objects. Raises InputError.

    cluster_snapshots: the cluster at each creation. The leader places them in the cluster with all of them.
    """
    for item in items:
        item.check(item.body["metadata"], METADATA, "metadata")
    if not items:
        return []
    pods = {n: (item, cluster_snapshots[n]) for n, item in enumerate(items) if (item.group, item.kind) == ("", "Pod")}
    found = judge_pods(pods, around)
    members = by_gang(found.values())
    for n, item in enumerate(items):
        if (item.group, item.kind) in POD_GROUPS:
            found[n] = judge_pod_group(item, members, around.rules)
        elif (item.group, item.kind) == POD_CLIQUE_SET:
            found[n] = judge_pod_clique_set(item, cluster_snapshots[n], around)
        elif n not in pods:
            found[n] = judge_workload(item, cluster_snapshots[n], around)
    return [found[n] for n in range(len(items))]


def _render(judgements: Sequence[Judgement], output: Output, *, all_nodes: bool) -> str:
    if output is Output.JSON:
        return render_json(judgements, all_nodes=all_nodes)
    for judgement in judgements:
        if not judgement.is_fine:
            left_out = " (left out)" if judgement.verdict is Verdict.DENY else ""
            tell(f"{judgement.verdict}{left_out}: {judgement.item.kind} {judgement.item.name}: {judgement.message}")
        for warning in (*judgement.all_warnings(), *judgement.notes):
            tell(f"warning: {judgement.item.kind} {judgement.item.name}: {warning}")
    return dump_all([judgement.mutated for judgement in judgements if judgement.verdict is not Verdict.DENY])
