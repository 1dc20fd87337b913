"""What a kubelet may write with its own credentials, of the fields that placement depends on (NodeRestriction)."""

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import Api, ApiError
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import NODES, TOPOLOGIES, Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RACK = "example.com/rack"
FENCED = "node-restriction.kubernetes.io/rack"


@pytest.fixture
def kubelet(control_plane: ControlPlane, create_machines: "Callable[..., None]") -> "Iterator[Api]":
    """The kubelet of n0; n1 is another node."""
    create_machines(Machine("n0", free=(8, 8)), Machine("n1", free=(8, 8)))
    api = control_plane.api.acting_as("system:node:n0", "system:nodes")
    yield api
    api.close()


def refused(call: "Callable[[], object]") -> bool:
    try:
        call()
    except ApiError as error:
        assert error.status in {403, 404}, error  # noqa: PT017 # the answer is wanted, too
        return True
    return False


def label(api: Api, node: str, key: str) -> "Callable[[], object]":
    return partial(api.patch, f"{NODES}/{node}", {"metadata": {"labels": {key: "elsewhere"}}})


def test_a_kubelet_moves_its_own_node_to_another_rack_unless_the_label_is_fenced(kubelet: Api) -> None:
    assert not refused(label(kubelet, "n0", RACK))
    assert refused(label(kubelet, "n0", FENCED))
    assert refused(label(kubelet, "n1", RACK))


def test_a_kubelet_says_what_its_own_node_has_and_no_others(kubelet: Api) -> None:
    more = {"status": {"capacity": {"cpu": "999"}, "allocatable": {"cpu": "999"}}}
    assert not refused(partial(kubelet.patch, f"{NODES}/n0/status", more))
    assert refused(partial(kubelet.patch, f"{NODES}/n1/status", more))


def test_a_kubelet_writes_no_node_resource_topology_by_itself(kubelet: Api) -> None:
    for node in ("n0", "n1"):
        assert refused(partial(kubelet.patch, f"{TOPOLOGIES}/{node}", {"metadata": {"labels": {"a": "b"}}}))


def test_a_kubelet_touches_only_the_status_of_pods_that_are_bound_to_it(kubelet: Api, pods: Pods) -> None:
    for node in ("n0", "n1"):
        pods.create(pod(f"on-{node}", annotations={}, nodeName=node))
    status: dict[str, Any] = {"status": {"reason": "x"}}
    assert not refused(partial(kubelet.patch, f"{pods.path}/on-n0/status", status))
    assert refused(partial(kubelet.patch, f"{pods.path}/on-n1/status", status))
    for name in ("on-n0", "on-n1"):
        change = {"metadata": {"annotations": {"team": "x"}}}
        assert refused(partial(kubelet.patch, f"{pods.path}/{name}", change))
        assert refused(partial(kubelet.create, f"{pods.path}/{name}/binding", {"metadata": {"name": name}}))
    assert refused(partial(kubelet.create, pods.path, pod("new")))
