"""Pods that are left to the scheduler say why it has not bound them, once, and not with every number that changes."""

from typing import Any

from tests.builders.pods import gated
from webhook.controllers.unbound_pods import DelegatedPods, why_not_bound
from webhook.kube.write import Outcome, Write
from webhook.model.names import NUMA_HINT, PLACEMENT
from webhook.state.rules import Rules

UNBOUND = "0/{} nodes are available: pod has unbound immediate PersistentVolumeClaims."
VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def left(name: str = "p", message: str = UNBOUND.format(1), **spec: Any) -> dict[str, Any]:
    raw = gated(name=name, schedulingGates=[], **{"volumes": VOLUMES, **spec})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return raw | {"status": {"phase": "Pending", "conditions": [condition]}}


def test_the_schedulers_message_stands_behind_why_the_pod_was_left_to_it() -> None:
    assert why_not_bound(left(), Rules()) == (
        "the scheduler chooses the node, for its volumes; not bound yet: " + UNBOUND.format(1)
    )


def test_of_other_pods_nothing_is_said() -> None:
    assigned = left()
    assigned["metadata"]["annotations"][NUMA_HINT] = '{"node": "n0", "numaNodeResources": []}'
    going = left()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for raw in (left(volumes=[]), left() | {"status": {}}, assigned, going):
        assert why_not_bound(raw, Rules()) is None


def test_a_placed_pod_that_lost_its_reservation_says_so_and_what_it_waits_for() -> None:
    assigned = left(volumes=[])
    assigned["metadata"]["annotations"][NUMA_HINT] = '{"node": "n0", "reserved": false}'
    assert why_not_bound(assigned, Rules()) == (
        "placed on n0, where nothing is reserved for it any more; not bound yet: " + UNBOUND.format(1)
    )


def test_a_message_of_any_length_is_cut() -> None:
    assert len(why_not_bound(left(message="x" * 100_000), Rules()) or "") <= 1000


class Cluster:
    """The pods, and what is written and told of them."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.written: list[str] = []
        self.told: list[str] = []

    def ungated_pods(self) -> dict[str, dict[str, Any]]:
        return self.pods

    async def patch(self, key: str, operations: Any) -> Write:
        del key
        self.written += [one["value"] for one in operations if one["path"].endswith(PLACEMENT.replace("/", "~1"))]
        return Write(Outcome.WRITTEN)

    def tell(self, event: Any) -> None:
        self.told.append(event.reason)


async def test_what_differs_in_numbers_alone_is_told_once_and_the_rest_at_most_every_half_minute() -> None:
    cluster = Cluster()
    looking: Any = cluster
    pods = DelegatedPods(looking, looking, looking, Rules(), lambda: True)
    for now, message in ((0, UNBOUND.format(1)), (1, UNBOUND.format(5)), (2, "another"), (31, "another")):
        cluster.pods = {"default/p": left(message=message)}
        await pods.sweep(now)
    assert [text.splitlines()[-1].rpartition(": ")[2] for text in cluster.written] == [
        "pod has unbound immediate PersistentVolumeClaims.",
        "another",
    ]
    assert cluster.told == ["WaitingForScheduler"] * 2


async def test_thousands_are_told_some_at_a_time_so_that_none_keeps_the_leader_busy() -> None:
    cluster = Cluster()
    looking: Any = cluster
    pods = DelegatedPods(looking, looking, looking, Rules(), lambda: True)
    cluster.pods = {f"default/p{number}": left(f"p{number}") for number in range(120)}
    await pods.sweep(0)
    assert len(cluster.written) == 50
