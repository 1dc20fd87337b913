"""What a search for victims costs in a full cluster, in CPU time.

    python -m tests.bench.preemption [--nodes 1000,5000] [--json]

The nodes have two NUMA nodes, each filled by a pod of low priority, in racks of 32. A pod, and a gang of 64 pods in one
rack, need whole NUMA nodes. A search runs in steps between reviews (see `webhook.controllers.preemption`), and this is
the sum of its steps; the check right before the first eviction comes on top. `decisions` is the ratio to one decision
about that pod in the same cluster, measured right after it.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from time import process_time
from typing import Any, Final

from tests.builders.topologies import topology
from tests.property.preemptors import CPUS, FullCluster, Holder
from tests.unit.controllers.preemption.leader import PreemptingLeader, high
from webhook.engine.decide import decide
from webhook.engine.preemption.candidates import Victims
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, MIN_MEMBER
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.search import PreemptionSearch
from webhook.state.rules import Rules
from webhook.steps import result_of

_RACK: Final = 32
_GANG: Final = 64
_LABEL: Final = "example.com/rack"


def main() -> None:
    """Print a line for each size and unit."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.preemption")
    parser.add_argument("--nodes", default="1000,5000", help="numbers, separated by commas")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    for nodes in map(int, arguments.nodes.split(",")):
        for line in lines(nodes):
            sys.stdout.write((json.dumps(line) if arguments.json else text(line)) + "\n")
            sys.stdout.flush()


def lines(nodes: int) -> Iterator[Mapping[str, Any]]:
    """A pod, then a gang."""
    annotations = {MIN_MEMBER: str(_GANG), KAI_TOPOLOGY: "racks", KAI_REQUIRED_PLACEMENT: _LABEL}
    gang = [high(f"g-{rank}", cpu=CPUS, group="g", annotations=annotations, second=rank) for rank in range(_GANG)]
    for unit, waiting in (("pod", [high("single", cpu=CPUS)]), (f"gang of {_GANG}", gang)):
        leader = PreemptingLeader(_full(nodes), *waiting)
        asyncio.run(leader.cycle())
        yield _measured(leader, nodes, unit)


def text(line: Mapping[str, Any]) -> str:
    """A line for people."""
    return (
        f"{line['nodes']} nodes, {line['unit']}: {line['victims']} victims, search {line['searchMilliseconds']:.1f} ms,"
        f" check {line['checkMilliseconds']:.1f} ms, as {line['decisions']:.0f} decisions"
    )


def _measured(leader: PreemptingLeader, nodes: int, unit: str) -> Mapping[str, Any]:
    preemptor = leader.controller.planner.preemptors.next()
    if preemptor is None:
        msg = f"{unit} does not preempt"
        raise RuntimeError(msg)
    rules = Rules()
    search = PreemptionSearch(leader.cache, rules)
    start = process_time()
    found = result_of(search.run(preemptor)).victims
    searched = process_time() - start
    if not isinstance(found, Victims):
        msg = f"no victims for {unit}"
        raise RuntimeError(msg)  # noqa: TRY004 # the type says that there are none
    bound = leader.cache.bound_pods.by_key()
    start = process_time()
    holds = search.still_holds(preemptor, {key: bound[key].uid for key in found.pods}, frozenset())
    checked = process_time() - start
    if not holds:
        msg = f"the choice for {unit} does not hold"
        raise RuntimeError(msg)
    decided = _decision_seconds(leader, preemptor.members[0], rules)
    return {
        "nodes": nodes,
        "unit": unit,
        "victims": len(found.pods),
        "searchMilliseconds": round(searched * 1e3, 2),
        "checkMilliseconds": round(checked * 1e3, 2),
        "decisions": round((searched + checked) / decided, 1),
    }


def _decision_seconds(leader: PreemptingLeader, member: GatedPod, rules: Rules, times: int = 20) -> float:
    snapshot = leader.cache.snapshot().nodes
    start = process_time()
    for _ in range(times):
        decide(snapshot, member.pod, member.intent, rules.engine)
    return (process_time() - start) / times


def _full(nodes: int) -> FullCluster:
    names = tuple(f"n{number:05}" for number in range(nodes))
    pods = tuple(
        Holder(f"{name}-{numa}", name, CPUS, number % 7, numa=numa)
        for number, name in enumerate(names)
        for numa in (0, 1)
    )
    labels = {name: {_LABEL: f"rack-{number // _RACK}"} for number, name in enumerate(names)}
    return FullCluster(names, pods, labels=labels, topology=topology(name="racks", labels=[_LABEL]))


if __name__ == "__main__":
    main()
