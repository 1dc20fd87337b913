"""The objects of one call that are groups of pods: a workload each, and bare pods that belong together.

1. A workload with annotations about a group is one, read by its kind.
2. Bare pods of one `pod-group-name` (or one controller) are one group together; each of them is shown with it.
3. Members that run in the cluster are told by their controller, or by the group's name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from webhook.admission.gang import GangJudgement, annotations_in, asks_for_a_group, judge_gangs, why_not_ours
from webhook.admission.gang_members import RunningPod, running_members
from webhook.admission.rules import Rules
from webhook.admission.steer import Verdict
from webhook.admission.world import World
from webhook.cli.documents import Item
from webhook.cli.shape import POD, TEXTS, faults
from webhook.engine.trees import TopologyTrees
from webhook.model.errors import UserError
from webhook.model.workload.pods import BY_HAND, belongs_to, workloads_of_pods
from webhook.model.workload.read import read_workload

_POD: Final = ("", "Pod")


def judge_groups(
    items: Sequence[Item], worlds: Sequence[World], running: Iterable[RunningPod], rules: Rules
) -> dict[int, GangJudgement]:
    """The judgement of each group by the positions of its objects. Raises InputError.

    worlds: the cluster as each of the objects finds it.
    """
    running = tuple(running)
    trees = TopologyTrees()
    judgements: dict[int, GangJudgement] = {}
    pods: list[int] = []
    for position, item in enumerate(items):
        if not asks_for_a_group(item.body):
            continue
        for path, annotations in annotations_in(item.body):
            for fault in TEXTS(annotations, path):
                raise item.fault(fault.path, fault.message)
        if (item.group, item.kind) == _POD:
            for fault in faults(item.body, POD):
                raise item.fault(fault.path, fault.message)
            if not (item.body["spec"].get("nodeName")):
                pods.append(position)
            continue
        judgement = _judge_workload(item, worlds[position], trees, running, rules)
        if judgement is not None:
            judgements[position] = judgement
    if pods:  # those of a group wait for a topology that comes after them
        bare = {position: items[position] for position in pods}
        judgements |= _judge_pods(bare, worlds[-1], trees, running, rules)
    return judgements


def _judge_workload(
    item: Item, world: World, trees: TopologyTrees, running: tuple[RunningPod, ...], rules: Rules
) -> GangJudgement | None:
    try:
        workload = read_workload(item.body)
        if workload is None:
            return None
        for gang in workload.distinct:
            for role in gang.all_roles():
                for fault in faults(role.template, POD, role.path):
                    raise item.fault(fault.path, fault.message)
        if why_not_ours(workload, rules):
            return None
        return judge_gangs(workload, world, trees, rules, running_members(workload, running))
    except UserError as error:
        return _fault(item, error)


def _judge_pods(
    items: Mapping[int, Item], world: World, trees: TopologyTrees, running: tuple[RunningPod, ...], rules: Rules
) -> dict[int, GangJudgement]:
    """The groups of bare pods. What is wrong with one of them is wrong with those it belongs to as well."""
    together: dict[tuple[str, ...], list[int]] = {}
    judgements: dict[int, GangJudgement] = {}
    for position, item in items.items():
        try:
            together.setdefault(belongs_to(item.body), []).append(position)
        except UserError as error:
            judgements[position] = _fault(item, error)
    for key, positions in together.items():
        first = items[positions[0]]
        try:
            begun = {pod.name: pod.node for pod in running if _is_of(pod, key)}
            bodies = [items[position].body for position in positions]
            pending = [body for body in bodies if _name(body) not in begun]
            beside = [_bound(bodies[0], name, node) for name, node in begun.items()]
            (found,) = workloads_of_pods([*pending, *beside])
            if not why_not_ours(found.workload, rules):
                judgement = judge_gangs(found.workload, world, trees, rules, found.running)
                judgements |= dict.fromkeys(positions, judgement)
        except UserError as error:
            judgements |= dict.fromkeys(positions, _fault(first, error))
    return judgements


def _is_of(pod: RunningPod, key: tuple[str, ...]) -> bool:
    """Whether a running pod belongs to the group of bare pods: (namespace, kind, name, ...)."""
    namespace, kind, name, *_ = key
    if pod.namespace != namespace:
        return False
    return pod.group == name if kind == BY_HAND else not pod.group and (pod.owner_kind, pod.owner_name) == (kind, name)


def _bound(like: Mapping[str, Any], name: str, node: str) -> Mapping[str, Any]:
    """A running member, which holds its place already: of it only name and node matter."""
    return {**like, "metadata": {**like["metadata"], "name": name}, "spec": {**like["spec"], "nodeName": node}}


def _name(body: Mapping[str, Any]) -> str:
    return str(body["metadata"].get("name") or "")


def _fault(item: Item, error: UserError) -> GangJudgement:
    """Annotations that are wrong deny the object; anything else the API server would not have taken."""
    for fault in error.faults:
        if "annotations" not in fault.path:
            raise item.fault(fault.path, fault.message) from error
    return GangJudgement(Verdict.DENY, " ".join(map(str, error.faults)))
