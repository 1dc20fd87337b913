"""Pods that were bound without a hint, from raw objects to what is free and what the leader is to write."""

from typing import Any

import pytest

from tests.fingerprints import pod_fingerprint
from webhook.cache.cluster_cache import ClusterWorld
from webhook.model.names import NUMA_HINT, NUMA_TOPOLOGY_SPEC

SECOND = 1_767_225_600  # 2026-01-01T00:00:00Z
EMPTY = "pfp0v001ef46db3751d8e999"  # the fingerprint of no pods


class World(ClusterWorld):
    """n0 ── NUMA 0 [16]  NUMA 1 [16]      [free cpus, by an NRT of second 0 that has seen no pod]"""

    def __init__(self) -> None:
        super().__init__(clock=lambda: float(SECOND + self.now))
        self.now = 1
        ready = [{"type": "Ready", "status": "True"}]
        allocatable = {"cpu": "32", "memory": "64Gi", "pods": "110"}
        self.nodes.upsert(
            "n0", {"metadata": {"name": "n0"}, "status": {"allocatable": allocatable, "conditions": ready}}
        )
        self.scan(0, EMPTY)

    def scan(self, second: int, fingerprint: str) -> None:
        zones = [
            {"name": f"node-{numa}", "type": "Node", "resources": [{"name": "cpu", "capacity": 16, "available": 16}]}
            for numa in range(2)
        ]
        attributes = {"topologyManagerPolicy": "single-numa-node", "nodeTopologyPodsFingerprint": fingerprint}
        written = {"time": stamp(second), "fieldsV1": {"f:zones": {}}}
        raw = {
            "metadata": {"name": "n0", "managedFields": [written]},
            "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
            "zones": zones,
        }
        self.node_topologies.upsert("n0", raw)

    def bind(self, name: str, second: int, cpu: int = 9, *, started: bool = False, hint: str = "") -> None:
        self.pods.upsert(f"ns/{name}", pod(name, second, cpu, started, {NUMA_HINT: hint} if hint else {}))

    def free(self) -> list[int]:
        view = self.view().view
        cpus: list[int] = (view.free(view.snapshot.resources.find("cpu"))[:, 0] // 1000).tolist()
        return cpus

    def hints(self) -> dict[str, str | None]:
        return {late.pod: None if late.hint is None else late.hint.to_json() for late in self.late_hints()}


def stamp(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


def pod(name: str, second: int, cpu: int, started: bool, annotations: dict[str, str]) -> dict[str, Any]:
    amounts = {"cpu": str(cpu), "memory": "1Gi"}
    statuses = {"containerStatuses": [{"name": "main"}]} if started else {}
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(second)}
    own = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}', **annotations}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": own},
        "spec": {
            "nodeName": "n0",
            "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}],
        },
        "status": {"phase": "Pending", "conditions": [condition], **statuses},
    }


@pytest.fixture
def world() -> World:
    return World()


HINT = '{"node":"n0","numaNodeResources":[{"node":0,"resources":{"cpu":"9"}}]}'


def test_its_place_is_known_when_its_kubelet_has_started_it_and_its_hint_due_a_while_after(world: World) -> None:
    world.bind("a", 1)
    assert world.free() == [7, 7]
    world.bind("a", 1, started=True)
    assert world.free() == [7, 16]
    assert world.hints() == {}  # another pod's end may be told later than this one's start
    world.now = 11
    assert world.hints() == {"ns/a": HINT}
    world.bind("a", 1, started=True, hint=HINT)
    assert world.free() == [7, 16]
    assert world.hints() == {}


def test_where_no_kubelet_answers_there_is_no_hint(world: World) -> None:
    world.bind("a", 1)
    world.now = 11
    assert world.hints() == {"ns/a": None}


def test_a_pod_that_its_nrt_has_counted_needs_none(world: World) -> None:
    world.scan(20, "pfp0v001" + "0" * 16)  # of pods that nobody knows
    world.bind("a", 5, started=True)
    assert world.free() == [16, 16]
    assert world.hints() == {}


def test_what_an_unmanaged_pod_was_given_is_kept_and_it_gets_no_hint(world: World) -> None:
    raw = pod("a", 1, 9, started=True, annotations={})
    raw["spec"]["schedulerName"] = "other"
    world.pods.upsert("ns/a", raw)
    assert world.free() == [7, 16]
    assert world.hints() == {}


def test_of_an_unmanaged_pod_with_many_containers_nothing_is_predicted(world: World) -> None:
    raw = pod("a", 1, 1, started=True, annotations={})
    raw["spec"]["schedulerName"] = "other"
    raw["spec"]["containers"] = [{**raw["spec"]["containers"][0], "name": f"c{n}"} for n in range(5)]
    world.pods.upsert("ns/a", raw)
    assert world.free() == [16, 16]
    arrival = world.arrival("n0", "ns/b")
    assert arrival is not None
    five = {"cpu": 5000}
    assert arrival.leeway.maybe_taken == [{0: five, 1: five}]  # so others have no hint until it is counted


def test_a_place_that_the_hint_of_another_pod_names_is_kept_and_not_written(world: World) -> None:
    world.bind("a", 1, started=True)
    world.bind("b", 2, started=True, hint=HINT)
    world.now = 12
    assert world.hints() == {"ns/a": None}
    assert min(world.free()) <= 0  # b may be on either


def test_those_that_were_in_a_list_have_none_for_nobody_saw_what_happened(world: World) -> None:
    for name in ("a", "b"):
        world.bind(name, 1, started=True)
    listed = World()
    listed.in_order = lambda: False
    for name in ("a", "b"):
        listed.bind(name, 1, started=True)
    world.now = listed.now = 11
    assert None not in world.hints().values()
    assert listed.hints() == {"ns/a": None, "ns/b": None}
    assert listed.free() == [0, 0]
    assert world.free() == [7, 7]


def test_of_one_that_was_bound_before_a_gap_in_the_watch_nothing_is_known(world: World) -> None:
    world.bind("a", 1, started=True)
    world.in_order = lambda: False
    world.bind("a", 1, started=True)  # the list after the gap
    world.in_order = lambda: True
    world.bind("b", 2, started=True)
    world.now = 12
    assert world.hints() == {"ns/a": None, "ns/b": None}


def test_what_may_be_anywhere_is_kept_until_the_nrt_has_counted_it(world: World) -> None:
    world.in_order = lambda: False
    world.bind("a", 1, cpu=9)
    world.bind("b", 1, cpu=5)
    assert world.free() == [2, 2]
    world.now = 200
    assert world.free() == [2, 2]
    world.scan(200, pod_fingerprint([("ns", "a"), ("ns", "b")]))
    assert world.free() == [16, 16]  # as this NRT says
    assert world.hints() == {}


def test_one_that_ended_meanwhile_was_in_the_way_of_the_next(world: World) -> None:
    world.bind("a", 1, started=True)
    world.bind("b", 2)
    world.pods.delete("ns/a")
    assert world.free() == [7, 7]  # b came to NUMA 1, or found a gone
    world.bind("b", 2, started=True)
    world.now = 12
    assert world.hints() == {"ns/b": None}


def test_one_that_ended_before_those_that_are_counted_was_in_nobodys_way(world: World) -> None:
    for second, name in enumerate("ab"):
        world.bind(name, second, cpu=4, started=True)
    world.pods.delete("ns/a")
    world.scan(2, pod_fingerprint([("ns", "b")]))
    world.bind("c", 3, started=True)
    world.now = 13
    assert world.hints() == {"ns/c": HINT}


def test_one_that_ended_long_before_the_nrt_was_written_was_in_nobodys_way(world: World) -> None:
    world.bind("a", 1, started=True)
    world.now = 5
    world.pods.delete("ns/a")
    for second, hint in ((15, None), (16, HINT)):
        world.scan(second, EMPTY)
        world.bind(f"b{second}", 20, started=True)
        world.now = 40
        assert world.hints() == {f"ns/b{second}": hint}
        world.now = 5
        world.pods.delete(f"ns/b{second}")


def test_one_on_its_way_may_find_the_room_of_one_that_was_elsewhere_than_its_hint_said(world: World) -> None:
    on_the_other = HINT.replace('"node":0', '"node":1')
    world.bind("a", 1, started=True, hint=on_the_other)
    world.scan(2, pod_fingerprint([("ns", "a")]))
    world.bind("b", 3, hint=on_the_other)
    assert world.free()[0] == 16
    world.pods.delete("ns/a")
    assert world.free() == [7, 7]
