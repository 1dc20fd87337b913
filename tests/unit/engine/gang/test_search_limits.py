"""The limits of work of a gang's search: what a tenant writes holds the leader for a fraction of a second at most."""

import pytest

from tests.builders.gangs import GPU, RACK, ZONE, gpus, group, podset, racks, whole_nodes
from tests.unit.engine.gang.assignments import assigned
from webhook.engine.gang import pareto_front
from webhook.engine.gang.assignment_request import Effort
from webhook.engine.gang.gang_spec import Constraint, Gang
from webhook.engine.gang.pareto_front import Budget, TooMuchWork, Vector
from webhook.engine.snapshot.cluster_state import ClusterState

SUBGROUPS = 64
STEPS = 40_000


# zone ─┬─ rack-0 ── n0 [8] .. n7 [8]     [free GPUs]; a node takes one pod of 5, and 65 pods are asked for
#       ├─ ..
#       └─ rack-7 ── n56 [8] .. n63 [8]
def cluster() -> ClusterState:
    names = [f"n{number}" for number in range(64)]
    places = racks(**{name: f"zone/rack-{number // 8}" for number, name in enumerate(names)})
    return whole_nodes(places=places, free={name: {GPU: 8} for name in names})


def subgroups(count: int) -> Gang:
    """Subgroups of one pod each, all different, each in one rack; the last has two pods."""
    sets = [
        podset(name=f"s{number}", of=gpus(5, memory=f"{number + 1}Mi"), count=1 + (number == count - 1))
        for number in range(count)
    ]
    required = Constraint(required=RACK)
    parts = (group(one, constraint=required, name=one.name) for one in sets)
    return group(*parts, constraint=Constraint(required=ZONE))


def test_work_on_vectors_of_many_classes_counts_in_proportion_to_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    entries, covers = 0, pareto_front.covers

    def counting(larger: Vector, smaller: Vector) -> bool:
        nonlocal entries
        entries += len(larger)
        return covers(larger, smaller)

    monkeypatch.setattr(pareto_front, "covers", counting)
    placement = assigned(cluster(), subgroups(SUBGROUPS), effort=Effort(steps=STEPS))
    assert not placement.assigned
    assert not placement.exhaustive
    assert 0 < entries <= 8 * STEPS


def test_vectors_of_a_few_classes_count_one_step_each() -> None:
    for classes, cost in ((1, 1), (8, 1), (15, 1), (16, 2), (64, 8)):
        budget = Budget(10 * cost, classes)
        budget.spend(10)
        with pytest.raises(TooMuchWork):
            budget.spend(1)
