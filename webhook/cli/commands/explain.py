"""`topology-webhook explain`: the complete reasons, for an object of the cluster or for objects in files.

- A live object: a pod's decision, hint and nodes, or a workload's pods by rank.
- Files: what `review` says, with nothing left out: for a gang each level's capacity, for a pod each node's answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import typer
from rich.console import Console
from rich.text import Text

from webhook.app.settings import Settings, asking_of, flag, rules_of
from webhook.cli.command import answering, warn, working, write
from webhook.cli.commands.review import review
from webhook.cli.flags import AUTOSCALER_SETTINGS, EXIT_REFUSED, Output
from webhook.cli.input.configuration_file import configuration
from webhook.cli.input.documents import InputError
from webhook.cli.input.object_reader import read_object
from webhook.cli.input.object_reference import POD, ObjectReference, object_reference
from webhook.cli.offline.explanation import Explanation, PodAnswer, pod_object, workload_object
from webhook.cli.render.gang_table import print_gangs
from webhook.cli.render.judgement_table import print_nodes_of
from webhook.cli.render.node_tables import amounts_text
from webhook.cli.render.printable import printable, shortened
from webhook.cli.render.text_table import Cell, print_line, print_table, short_amount
from webhook.model.wording import counted
from webhook.placing.pod.decision import Verdict
from webhook.views.nodes import NUMA_SOURCES
from webhook.views.pod_standing import (
    ALLOCATION_VERDICTS,
    WITHOUT_NODE,
    AllocationCheck,
    AllocationVerdict,
    PodStanding,
    Standing,
)
from webhook.views.ranks import RankedPod, RanksView
from webhook.views.waiting import PreemptionView, Preempts

_NAME: Final = 64
_TEXT: Final = 1_000
# Columns of a fact's title: "preemption ".
_TITLE: Final = 11
# Pods or nodes in one line.
_VICTIMS: Final = 8
_STYLES: Final = {
    Standing.RUNNING: "green",
    Standing.BOUND: "green",
    Standing.ASSIGNED: "green",
    Standing.FAILED: "red",
    Standing.SUCCEEDED: "",
}


def print_pod(pod: PodStanding, answer: PodAnswer | None, console: Console) -> None:
    """Print a pod. answer: None if it is bound."""
    name = shortened(f"{pod.namespace}/{pod.name}", 2 * _NAME)
    print_line(Text.assemble((f"Pod {name}", "bold"), ": ", (pod.state.value, _style(pod.state))), console)
    for title, text in _facts(pod):
        lines = text.splitlines() or [""]
        for number, line in enumerate(lines):
            shown = f"{'' if number else title:10} {shortened(line, _TEXT)}".rstrip()
            print_line(Text(shown), console, _TITLE)
    if pod.hint is not None and pod.hint.amounts:
        _print_allocation(pod.hint, console)
    if answer is not None:
        _print_answer(answer, console)
        if answer.decision is not None:
            print_nodes_of(answer.decision, console, all_nodes=True)


def print_workload(
    explanation: Explanation, answers: Sequence[tuple[PodStanding, PodAnswer]], console: Console
) -> None:
    """Print the pods of a workload or PodGroup by rank, and why some wait."""
    found = explanation.found
    counts = Counter(pod.state for pod in explanation.pods)
    states = ", ".join(f"{counts[state]} {state}" for state in Standing if counts[state]) or "it has no pods"
    name = shortened(f"{found.namespace}/{found.reference.name}", 2 * _NAME)
    print_line(Text.assemble((f"{found.reference.kind} {name}", "bold"), f": {states}"), console)
    print_ranks(explanation.ranks, {pod.name: pod for pod in explanation.pods}, console)
    for pod, answer in answers:
        print_line(Text(), console)
        print_line(Text(f"{shortened(pod.name, _NAME)} waits", style="bold"), console)
        if pod.placement:
            print_line(Text(f"decision   {shortened('; '.join(pod.placement.splitlines()), _TEXT)}"), console, _TITLE)
        _print_answer(answer, console)


def print_ranks(ranks: RanksView, pods: dict[str, PodStanding], console: Console) -> None:
    """Print the pods by rank, and how many neighbours share which domain."""
    if not ranks.pods:
        return
    several = len({pod.gang for pod in ranks.pods}) > 1
    titles = ("POD", *(["GANG"] if several else []), "RANK", "STATE", "NODE", "NUMA", "DOMAIN", "DISTANCE")
    header = [Cell(title, right=title in {"RANK", "DISTANCE"}) for title in titles]
    print_table([header, *(_ranked(pod, pods[pod.name], several=several) for pod in ranks.pods)], console)
    if ranks.neighbours:
        shared = [
            f"{each.neighbours} share {'the node' if each.level == 'node' else _level(each.level)}"
            for each in ranks.shared
            if each.level is not None
        ]
        print_line(Text(f"{ranks.neighbours} neighbours in rank: {', '.join(shared)}"), console)


def _level(label: str) -> str:
    return f"a {printable(label.rpartition('/')[2])}"


def _ranked(pod: RankedPod, standing: PodStanding, *, several: bool) -> list[Cell]:
    numa = "-" if pod.numa_nodes is None else "+".join(map(str, pod.numa_nodes)) or "any"
    return [
        Cell(shortened(pod.name, _NAME)),
        *([Cell(shortened(pod.gang, _NAME) or "-")] if several else []),
        Cell("-" if pod.rank is None else str(pod.rank), right=True),
        Cell(standing.state.value, _style(standing.state)),
        Cell(shortened(pod.node, _NAME) or "-"),
        Cell(numa),
        Cell(_path(pod.domain) or "-"),
        Cell("-" if pod.distance is None else str(pod.distance), right=True),
    ]


def _facts(pod: PodStanding) -> Iterator[tuple[str, str]]:
    if pod.unmanaged:
        yield "unmanaged", pod.unmanaged
    if pod.placement:
        yield "decision", pod.placement
    if pod.placed is not None:
        since = f" (since {pod.placed.since})" if pod.placed.since else ""
        yield "Placed", f"{pod.placed.status}, {pod.placed.reason}{since}"
    if pod.scheduler:
        yield "scheduler", pod.scheduler
    if pod.policy:
        yield "policy", pod.policy
    if pod.gang:
        yield "gang", pod.gang + ("" if pod.rank is None else f", rank {pod.rank}")
    if pod.node:
        yield "node", pod.node + (f" in {_path(pod.domain)}" if pod.domain else "")
    for each in pod.managers if pod.policy else ():
        yield "kubelet", f"{each.manager} manager: {each.text}"
    if pod.numa_nodes:
        how = "" if pod.numa_source is None else f" ({NUMA_SOURCES[pod.numa_source]})"
        yield "NUMA", "; ".join(f"{share.id}: {amounts_text(share.amounts)}" for share in pod.numa_nodes) + how
    if pod.ignored_observation:
        yield "observed", f"ignored: {pod.ignored_observation}"
    for device in pod.devices:
        near = "" if device.numa_node is None else f", NUMA {device.numa_node}"
        yield "device", f"{device.driver}/{device.pool}/{device.name}{near} (claim {', '.join(device.claims)})"
    if pod.hint is not None and pod.hint.verdict is not AllocationVerdict.NO_ALLOCATION:
        reported = pod.hint.reported
        where = "" if reported is None else f" (NUMA {'+'.join(map(str, reported))})"
        yield "NRT", ALLOCATION_VERDICTS[pod.hint.verdict] + where


def _print_allocation(check: AllocationCheck, console: Console) -> None:
    header = [Cell("NUMA", right=True), Cell("RESOURCE"), Cell("HINT", right=True), Cell("TAKEN IN NRT", right=True)]
    rows = [
        [
            Cell(str(each.id), right=True),
            Cell(printable(each.resource)),
            Cell(short_amount(each.resource, each.hint), right=True),
            Cell("-" if each.taken is None else short_amount(each.resource, each.taken), right=True),
        ]
        for each in check.amounts
    ]
    print_table([header, *rows], console)


def _print_answer(answer: PodAnswer, console: Console) -> None:
    fits = answer.verdict is Verdict.ALLOW
    verdict = ("fits", "green") if fits else ("fits nowhere", "yellow")
    print_line(Text.assemble("now        ", verdict, f": {shortened(answer.message, _TEXT)}"), console, _TITLE)
    if answer.gang is not None and answer.gang.placement is not None:
        print_gangs(answer.gang.placement, console)
    if answer.preemption is not None and (text := _preemption(answer.preemption)):
        print_line(Text(f"preemption {shortened(text, _TEXT)}"), console, _TITLE)
    if answer.autoscaler is not None:
        print_line(Text(f"autoscaler {shortened(answer.autoscaler.text, _TEXT)}"), console, _TITLE)


def _preemption(view: PreemptionView) -> str:
    """Which pods would end; empty if no end helps."""
    match view.verdict:
        case Preempts.VICTIMS:
            shown = [f"{pod.namespace}/{pod.name} (priority {pod.priority}, {pod.node})" for pod in view.victims]
            more = f" and {len(shown) - _VICTIMS} more" if len(shown) > _VICTIMS else ""
            against = f", {view.violations} of them against a PodDisruptionBudget" if view.violations else ""
            count = counted(len(shown), "lower-priority pod")
            return f"would start if {count} terminated{against}: {', '.join(shown[:_VICTIMS])}{more}"
        case Preempts.ENDING:
            return f"starts on {', '.join(view.nodes[:_VICTIMS])} once the pods that are terminating there are gone"
        case Preempts.NEVER:
            return view.why
        case _:
            return ""


def _path(domain: Sequence[tuple[str, str]]) -> str:
    return " / ".join(shortened(value, _NAME) for _, value in domain)


def _style(state: Standing) -> str:
    return _STYLES.get(state, "yellow")


def explain(
    target: str | None,
    filename: list[str] | None,
    namespace: str | None,
    cluster: list[str] | None,
    output: Output,
    config: str | None = None,
    **flags: str | None,
) -> None:
    """Print where an object of the cluster stands, or what `review` says with nothing left out."""
    with answering():
        if (target is None) == (not filename):
            raise InputError("give either KIND/NAME, such as pod/train-0, or files with -f")
        if target is None:
            if namespace is not None:
                raise InputError("--namespace: objects in files name their own namespace")
            if given := [flag(name) for name in AUTOSCALER_SETTINGS if flags.get(name) is not None]:
                raise InputError(f"{given[0]}: an autoscaler is asked for pods that exist, so give KIND/NAME")
            review(filename or [], cluster, output, all_nodes=True, config=config, **flags)
            return
        settings = Settings.load(flags, configuration(config))
        all_fit = _explain(object_reference(target), namespace, cluster or [], output, settings, flags)
    if not all_fit:
        raise typer.Exit(EXIT_REFUSED)


def _explain(
    reference: ObjectReference,
    namespace: str | None,
    snapshots: list[str],
    output: Output,
    settings: Settings,
    flags: Mapping[str, str | None],
) -> bool:
    """Print the object; returns whether all its pods have a node or fit now."""
    found = read_object(reference, namespace, snapshots, settings, flags)
    warn(found.cluster)
    explanation = Explanation(found, rules_of(settings), asking_of(settings))
    if (reference.group, reference.kind) == POD:
        (pod,) = explanation.pods
        open_states = {*WITHOUT_NODE, Standing.ASSIGNED}
        with working("deciding"):
            answer = explanation.answer(pod) if pod.state in open_states and not pod.unmanaged else None
        write(output, pod_object(pod, answer), lambda console: print_pod(pod, answer, console))
        return answer is None or pod.state is Standing.ASSIGNED or answer.verdict is Verdict.ALLOW
    with working("deciding"):
        answers = list(explanation.answers())
    write(
        output,
        workload_object(explanation, answers),
        lambda console: print_workload(explanation, answers, console),
    )
    return all(answer.verdict is Verdict.ALLOW for _, answer in answers)
