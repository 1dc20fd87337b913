"""`tree` and `nodes` of a live cluster show what the running service decides with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from tests.cluster.gated import PLACEMENT, Pods, pod
from tests.cluster.nodes import RACK_LABEL, Machine
from tests.cluster.racked import TOPOLOGY, webhook
from tests.unit.cli.conftest import run_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.model.raw import Draft

__all__ = ["webhook"]  # a fixture: the service and the topology `racks`

# rack-0 ── m0 [16 5]  m1 [9 0]        [free CPUs per NUMA node, of 16]
# rack-1 ── m2 [16 16]
FLEET = [
    Machine("m0", free=(16, 5), labels={RACK_LABEL: "rack-0"}),
    Machine("m1", free=(9, 0), labels={RACK_LABEL: "rack-0"}),
    Machine("m2", free=(16, 16), labels={RACK_LABEL: "rack-1"}),
]


def shown(pods: Pods, command: str, *arguments: str) -> Draft:
    """The JSON of a command on the live cluster."""
    outcome = run_command(command, *arguments, "-o", "json", "--kubeconfig", pods.plane.kubeconfig)
    assert (outcome.code, outcome.stderr) == (0, "")
    answer: Draft = outcome.json
    return answer


def largest(pods: Pods) -> dict[str, int]:
    """By node, the CPUs of the largest block that `tree` shows."""
    found: dict[str, int] = {}
    below = [
        shown(pods, "tree", "--topology", "racks", "--depth", "node", "--resource", "cpu")["topologies"][0]["root"]
    ]
    while below:
        domain = below.pop()
        below += domain["domains"]
        if domain["level"] == "node":
            found[domain["value"]] = domain["amounts"][0]["largest"] // 1000
    return found


def fitting(pods: Pods, cpus: int) -> int:
    """On how many nodes the service places a pod with so many CPUs on one NUMA node."""
    said = pods.plane.api.create(f"{pods.path}?dryRun=All", pod("any", cpu=cpus))
    text = said["metadata"]["annotations"][PLACEMENT]
    if found := re.search(r"(\d+) of \d+ nodes? fits?\b", text):
        return int(found[1])
    assert "none of" in text
    return 0


def test_the_discovered_topology_can_be_applied_and_has_the_racks(pods: Pods, known: Callable[..., None]) -> None:
    known(*FLEET)
    plane = pods.plane
    arguments = ("--label", RACK_LABEL, "--name", "found", "-o", "yaml", "--kubeconfig", plane.kubeconfig)
    plane.api.create(TOPOLOGY, yaml.safe_load(run_command("topology", "discover", *arguments).stdout))
    try:
        (found,) = shown(pods, "tree", "--topology", "found", "--depth", "node")["topologies"]
        assert [domain["value"] for domain in found["root"]["domains"]] == ["rack-0", "rack-1"]
    finally:
        plane.api.delete(f"{TOPOLOGY}/found")


def test_the_largest_blocks_are_those_that_the_service_gives_away(pods: Pods, known: Callable[..., None]) -> None:
    known(*FLEET)
    assert largest(pods) == {"m0": 16, "m1": 9, "m2": 16}
    pods.create(pod("p0", cpu=12))
    pods.wait_until_bound("p0")
    pods.plane.wait_for("an allocation", lambda: "numaNodeResources" in str(pods.get("p0")["metadata"]["annotations"]))
    node, (numa_id,) = pods.allocation("p0")
    blocks = largest(pods)
    for cpus in (1, 4, 5, 6, 9, 10, 16):
        assert fitting(pods, cpus) == sum(block >= cpus for block in blocks.values()), (cpus, blocks)
    details = shown(pods, "nodes", node)
    (one,) = [each for each in details["pods"] if each["name"] == "p0"]
    assert [share["id"] for share in one["numaNodes"]] == [numa_id]
    (reserved,) = details["reservations"]  # no exporter runs here, so the NRT does not report the pod
    assert (reserved["name"], reserved["numaNodes"][0]["amounts"]["cpu"]) == ("p0", 12_000)
    free = {each["id"]: each["amounts"][0] for each in details["node"]["numaNodes"]}
    published = next(machine for machine in FLEET if machine.name == node).free
    assert free[numa_id]["free"] == 1000 * (published[numa_id] - 12)
