"""Pods as Grove's operator creates them, with and without the setting."""

from typing import Any

from tests.builders.clusters import cluster_snapshot
from tests.builders.grove import GATE, labels
from tests.builders.nodes import node
from tests.builders.pods import plain
from tests.builders.reviews import review
from webhook.admission.pod.mutate import PodMutator, decide_creation
from webhook.admission.response import Patched
from webhook.model.names import PLACEMENT_GATE
from webhook.model.raw import Raw
from webhook.placing.pod.decision import PodDecision
from webhook.state.rules import Rules

CLUSTER = cluster_snapshot(node(name="a"))
ON = Rules(grove_pod_gangs=True)


def created(index: int = 0, **how: Any) -> dict[str, Any]:
    """A pod behind Grove's gate."""
    metadata = {"generateName": "g-a-", "labels": labels("a", index)}
    return plain(cpu=1, metadata=metadata, schedulingGates=[{"name": GATE}], **how)


def decided(raw: Raw, rules: Rules = ON) -> PodDecision:
    return decide_creation(review(raw), CLUSTER, rules)


def test_a_pod_of_a_podgang_gets_its_gang_and_our_gate_beside_groves() -> None:
    found = decided(created())
    assert found.mutated["metadata"]["annotations"]["pod-group-name"] == "g"
    assert found.mutated["spec"]["schedulingGates"] == [{"name": GATE}, {"name": PLACEMENT_GATE}]
    again = decided(found.mutated)
    assert (again.mutated, again.warnings) == (found.mutated, ())


def test_without_the_setting_it_is_unmanaged_and_one_that_asks_for_something_else_is_warned() -> None:
    found = decided(created(), Rules())
    assert (found.operations, found.warnings) == ((), ())
    numa = {"scheduling.koordinator.sh/numa-topology-spec": '{"numaTopologyPolicy": "BestEffort"}'}
    found = decided(created(annotations=numa), Rules())
    assert any("grovePodGangs" in warning for warning in found.warnings)
    assert "pod-group-name" not in found.mutated["metadata"]["annotations"]
    assert decided(created(annotations=numa)).warnings == ()


def test_a_pod_of_another_scheduler_is_left_to_it() -> None:
    found = decided(created(schedulerName="kai-scheduler"))
    assert found.operations == ()
    assert "the scheduler kai-scheduler places it" in found.message


def test_a_gang_that_the_pod_names_itself_counts_with_a_warning() -> None:
    found = decided(created(annotations={"pod-group-name": "mine"}))
    assert found.mutated["metadata"]["annotations"]["pod-group-name"] == "mine"
    assert found.warnings == (
        'metadata.annotations[pod-group-name] counts, and PodGang "g" does not. Keep one of the two.',
    )


def test_the_pods_of_a_podclique_get_one_answer() -> None:
    mutator = PodMutator(lambda: CLUSTER, ON)
    first, second = (mutator.handle(review(created(index))) for index in (0, 1))
    assert isinstance(first, Patched)
    assert second is first
