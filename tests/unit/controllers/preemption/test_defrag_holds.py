"""A place that `defrag` frees is held for what waits: it nominates, then evicts pods of any lower or equal priority."""

from time import monotonic
from typing import Any

import pytest

from tests.builders.clusters import put
from tests.builders.nodes import node
from tests.builders.pods import bound, gated
from tests.unit.views.one_node import WRITTEN_AT
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.waiting_preemptors import WaitingPreemptors
from webhook.state.cluster_cache import ClusterCache

ENDING = {"deletionTimestamp": "2030-01-01T02:00:10Z"}
RIVAL = GatedPod.from_object(gated(name="rival"))


def waits(nominated: str = "n0") -> GatedPod:
    return GatedPod.from_object({**gated(name="waits"), "status": {"nominatedNodeName": nominated}})


def preemptors(metadata: dict[str, Any], **how: Any) -> WaitingPreemptors:
    """A term has begun, and one pod runs on n0."""
    cache = ClusterCache(clock=lambda: WRITTEN_AT, preempts=True)
    put(cache, node(name="n0", cpus=8), bound(name="a", node="n0", cpu=8, metadata=metadata, **how))
    found = WaitingPreemptors(cache, monotonic, is_enabled=True)
    found.collected([RIVAL], 0.0)
    return found


def test_it_is_held_while_the_pods_end() -> None:
    found = preemptors(ENDING)
    found.collected([waits(), RIVAL], 1.0)
    assert found.closed_to(RIVAL) == {"n0"}
    assert not found.closed_to(waits())
    (hold,) = found.holds
    assert hold.text == "1 pod on node n0 must terminate first"


@pytest.mark.parametrize("how", [{"metadata": {}}, {"metadata": ENDING, "priority": 1}])
def test_a_nomination_alone_holds_nothing(how: dict[str, Any]) -> None:
    found = preemptors(**how)
    found.collected([waits(), RIVAL], 1.0)
    assert not len(found.holds)


def test_a_hold_that_ended_in_vain_does_not_come_back() -> None:
    found = preemptors(ENDING)
    found.collected([waits()], 1.0)
    (hold,) = found.holds
    found.holds.end(hold)
    found.collected([waits()], 2.0)
    assert not len(found.holds)
    found.collected([waits("")], 3.0)
    found.collected([waits()], 4.0)
    assert len(found.holds), "it was nominated again"
