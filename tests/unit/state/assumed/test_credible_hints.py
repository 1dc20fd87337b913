"""Which hints of bound pods their node contradicts."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.builders.records import cpus, resident, topology
from webhook.formats.kubernetes.pod_resources import Container, ContainerKind
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy, Scope
from webhook.state.assumed.known_placements import credible

# n ── NUMA 0 [8]  NUMA 1 [8]      [cpus]
N = topology(node="n", free=cpus(8, 8))
BOTH = {0: {"cpu": 2000}, 1: {"cpu": 2000}}


def pod(hint: Mapping[int, Mapping[str, int]], containers: int = 1) -> ResidentPod:
    main = Container("main", ContainerKind.APP, {"cpu": 2000}, {"cpu": 2000})
    return replace(resident(name="p", node="n", requests={"cpu": 9000}, numa=hint), containers=(main,) * containers)


@pytest.mark.parametrize(
    ("hint", "containers", "node"),
    [
        ({0: {"cpu": 8000}}, 1, N),
        ({1: {"memory": 2**40}}, 1, N),
        (BOTH, 2, N),
        (BOTH, 1, topology(node="n", free=cpus(8, 8), policy=NUMAPolicy.RESTRICTED)),
        (BOTH, 1, topology(node="n", free=cpus(8, 8), publisher=Publisher.TOTAL)),
        ({7: {"cpu": 8000}}, 1, None),
    ],
    ids=["one", "not listed", "a container each", "restricted", "koordlet", "nothing known"],
)
def test_what_the_kubelet_can_have_done_counts(
    hint: Mapping[int, Mapping[str, int]], containers: int, node: NodeTopology | None
) -> None:
    assert credible(pod(hint, containers), node).hint == tuple(hint.items())


@pytest.mark.parametrize(
    ("hint", "containers", "node"),
    [
        ({2: {"cpu": 1000}}, 1, N),
        ({0: {"cpu": 8001}}, 1, N),
        (BOTH, 1, N),
        (BOTH, 2, topology(node="n", free=cpus(8, 8), scope=Scope.POD)),
    ],
    ids=["no such NUMA node", "more than it has", "two for one container", "two for one pod"],
)
def test_what_it_cannot_have_done_does_not(
    hint: Mapping[int, Mapping[str, int]], containers: int, node: NodeTopology
) -> None:
    assert credible(pod(hint, containers), node).hint is None
