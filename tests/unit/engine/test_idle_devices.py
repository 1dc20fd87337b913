"""Of equal nodes of which no NUMA node lists CPUs, those come first where idle devices keep the most of them."""

from collections.abc import Mapping

from tests.builders.records import GI, node, pod, state, topology
from tests.unit.engine.decisions import decision
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.formats.kubernetes.node import Node
from webhook.formats.nrt import NodeTopology
from webhook.model.policy import NUMAPolicy

GPU = "example.com/gpu"
EIGHT = {"cpu": "8", "memory": "1Gi"}

Machine = list[Node | NodeTopology]


def machine(name: str, *, cpus: int = 32, listed: Mapping[str, int] | None = None, **devices: int) -> Machine:
    """A node with a default kubelet. devices: such as gpu, near its first NUMA node. listed: of its second one."""
    pieces = {f"example.com/{kind}": count for kind, count in devices.items()}
    whole = {"cpu": 1000 * cpus, "memory": 64 * GI, "pods": 110, **pieces}
    return [
        node(name=name, allocatable=whole),
        topology(node=name, policy=NUMAPolicy.NONE, free=[{**pieces, **(listed or {})}, listed or {}]),
    ]


def best(*machines: Machine, asked: Mapping[str, str] = EIGHT, ledger: Ledger | None = None) -> list[str]:
    decided = decision(state(*(each for objects in machines for each in objects)), pod(asked), ledger=ledger)
    return [each.node for each in decided.best(len(machines))]


def test_nodes_without_idle_devices_come_first() -> None:
    assert best(machine("a", gpu=2), machine("b"), machine("c", gpu=2), machine("d")) == ["b", "d", "a", "c"]


def test_of_the_others_those_come_first_where_each_idle_device_keeps_the_most_cpus() -> None:
    # left to each device: a (32 - 8) / 4 = 6, b (24 - 8) / 2 = 8, c 8 again, d 24 / 2 = 12
    machines = machine("a", gpu=4), machine("b", cpus=24, gpu=2), machine("c", cpus=24, gpu=2), machine("d", gpu=2)
    assert best(*machines) == ["d", "b", "c", "a"]


def test_of_several_kinds_of_devices_the_scarcest_share_counts() -> None:
    assert best(machine("a", gpu=1, nic=4), machine("b", gpu=2, nic=2)) == ["b", "a"]


def test_devices_that_the_pod_asks_for_are_not_left_idle() -> None:
    assert best(machine("a", cpus=24, gpu=2), machine("b", gpu=2), asked={**EIGHT, GPU: "1"}) == ["a", "b"]


def test_where_numa_nodes_list_cpus_the_fuller_ones_stay_first() -> None:
    listed = {"cpu": 16_000, "memory": 32 * GI}
    assert best(machine("a", listed=listed, gpu=2), machine("b", listed=listed)) == ["a", "b"]


def test_pods_without_devices_leave_room_for_as_many_with_devices_as_there_are() -> None:
    """Twelve pods of 8 CPUs on six machines of 32, then 12 that ask for 4 and one of two GPUs on each machine."""
    machines = [machine(f"n{number}", gpu=2) for number in range(6)]
    ledger = Ledger()
    for kind, asked, amounts in (
        ("plain", EIGHT, {"cpu": 8000, "memory": GI}),
        ("gpu", {"cpu": "4", "memory": "1Gi", GPU: "1"}, {"cpu": 4000, "memory": GI, GPU: 1}),
    ):
        for number in range(12):
            chosen = best(*machines, asked=asked, ledger=ledger)[0]
            ledger.put(Reservation.of(f"default/{kind}-{number}", chosen, {}, amounts))
    assert len(ledger) == 24
