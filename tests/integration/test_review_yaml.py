"""Without the webhook, the scheduler keeps the output of `review -o yaml` for a gang in its domain.

    rack-0 ── n0 n1      rack-1 ── n2 n3 n4 n5      rack-2 ── n6 n7 n8 n9 n10 n11      [16 free cpus on one NUMA node]

A gang of four pods that need a node each belongs into rack-1. The scheduler alone spreads them over all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cluster.gated import SINGLE, Pods, pod
from tests.cluster.kinds import KINDS, APIKind
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, Machine
from tests.cluster.racked import RACKS, rack_of, topology_of_racks
from tests.unit.cli.conftest import run_review

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from webhook.model.raw import Draft
SIZES = (2, 4, 6)
TEMPLATE = {"metadata": {"labels": {"app": "w"}}, "spec": pod("", cpu=16)["spec"]}
BUILT_IN = [kind for kind in KINDS if kind.kind in {"Job", "Deployment", "ReplicaSet", "StatefulSet"}]
PREFERS = {"kai.scheduler/topology": "racks", "kai.scheduler/topology-preferred-placement": "rack"}


@pytest.fixture(scope="module", autouse=True)
def topology(control_plane: ControlPlane) -> Iterator[None]:
    with topology_of_racks(control_plane):
        yield


@pytest.fixture
def fleet(create_machines: Callable[..., None]) -> None:
    racks = [rack for rack, size in enumerate(SIZES) for _ in range(size)]
    labels = [{RACK_LABEL: f"rack-{rack}", ZONE_LABEL: "zone-0"} for rack in racks]
    create_machines(*(Machine(f"n{number}", free=(16,), labels=own) for number, own in enumerate(labels)))


def bound_as_printed(raws: Sequence[Draft], pods: Pods, folder: Path) -> set[str]:
    """Create what `review` printed for the objects. Returns the racks of the bound pods."""
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(raws))
    printed = run_review("-f", file, "-o", "yaml", "--kubeconfig", pods.plane.kubeconfig, cluster=None)
    assert (printed.code, printed.stderr) == (0, "")
    pods.plane.kubectl("create", "--namespace", pods.namespace, "--filename", "-", input=printed.stdout)
    pods.plane.wait_for("all to be bound", lambda: len(pods.bound()) == 4)
    return {rack_of(pods, name) for name in pods.bound()}


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("level", [RACKS, PREFERS], ids=["required", "preferred"])
@pytest.mark.parametrize("kind", BUILT_IN, ids=str)
def test_the_pods_of_a_workload_get_nodes_of_its_domain(
    kind: APIKind, level: dict[str, str], pods: Pods, tmp_path: Path
) -> None:
    assert bound_as_printed([kind.workload({**level, **SINGLE}, TEMPLATE)], pods, tmp_path) == {"rack-1"}


@pytest.mark.usefixtures("fleet")
def test_so_do_bare_pods_of_one_group(pods: Pods, tmp_path: Path) -> None:
    asked = {**RACKS, "pod-group-name": "g", "topology-webhook.dev/min-member": "4"}
    raws = [{"apiVersion": "v1", "kind": "Pod", **pod(f"g-{number}", 16, asked)} for number in range(4)]
    assert bound_as_printed(raws, pods, tmp_path) == {"rack-1"}
