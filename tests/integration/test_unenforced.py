"""Pods with a strict policy and a kubelet that enforces none: it comes last, and everything says what it does not do.

    s0 s1 s2  ── NUMA 0 [8]  NUMA 1 [8]    single-numa-node      [free cpus]
    weak      ── NUMA 0 [8]  NUMA 1 [8]    none, the default of kubelets

The kubelets are simulated, with the kubelet's own code.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import NUMA, PLACEMENT, Pods, is_gated, pod, wait_until_known
from tests.cluster.kubelets import Kubelets, even_machine, kubelets
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from tests.unit.cli.conftest import run_command
from webhook.model.names import RESOURCE_STATUS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

STRICT = ("s0", "s1", "s2")
FLEET = [
    *(even_machine(name, 8) for name in STRICT),
    even_machine("weak", 8, policy="none"),
]
SAID = "not enforced there: policy none"
# No NodeResourceTopology shows what the pods of a test got.
NEVER = 100_000.0


@pytest.fixture(scope="module")
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    with local_webhook(control_plane, values={"settings": QUICK_LEASE}) as webhook:
        yield webhook


@pytest.fixture
def machines(control_plane: ControlPlane, webhook: LocalWebhook, namespace: str) -> Iterator[Kubelets]:
    pods = Pods(control_plane, namespace)
    wait_until_known(pods, 0)
    with kubelets(control_plane, FLEET, lag=NEVER) as running:
        wait_until_known(pods, len(FLEET))
        yield running
        control_plane.delete_namespace(namespace)


def warned(pods: Pods, raw: dict[str, Any]) -> list[str]:
    """Create the pod with kubectl; returns its warnings."""
    arguments = ("create", "--namespace", pods.namespace, "--filename", "-")
    return pods.plane.kubectl_warnings(*arguments, input=json.dumps({"apiVersion": "v1", "kind": "Pod", **raw}))


def told(pods: Pods) -> list[dict[str, Any]]:
    """The Events that a policy is not enforced."""
    path = f"/api/v1/namespaces/{pods.namespace}/events?fieldSelector=reason=NotEnforced"
    found: list[dict[str, Any]] = pods.plane.api.get(path)["items"]
    return found


def audited(plane: ControlPlane) -> dict[str, Any]:
    done = run_command("audit", "--output=json", f"--kubeconfig={plane.kubeconfig}")
    found: dict[str, Any] = done.json["nodes"]
    return found


def examined(plane: ControlPlane) -> str:
    """What `doctor` says of nodes that do not enforce policies."""
    done = run_command("doctor", "--output=json", f"--kubeconfig={plane.kubeconfig}")
    return "; ".join(each["text"] for each in done.json["findings"] if "strict NUMA policy" in each["text"])


def fill_strict_machines(pods: Pods) -> None:
    """Each NUMA node of the machines that enforce the policy has a pod."""
    names = [f"full-{number}" for number in range(2 * len(STRICT))]
    for name in names:
        pods.create(pod(name, cpu=8, nodeSelector={"kubernetes.io/hostname": STRICT[int(name[-1]) // 2]}))
    pods.wait_until_bound(*names)


@pytest.mark.usefixtures("machines")
def test_pods_go_where_their_policy_is_enforced_though_packing_would_attract_them_elsewhere(
    control_plane: ControlPlane, pods: Pods
) -> None:
    for name, cpu in (("seven", 7), ("four", 4)):
        assert warned(pods, pod(name, cpu=cpu)) == []
        pods.wait_until_bound(name)
    assert set(pods.bound().values()) <= set(STRICT)
    for name in ("seven", "four"):
        assert SAID not in pods.get(name)["metadata"]["annotations"][PLACEMENT]
        assert len(pods.allocation(name)[1]) == 1
    assert told(pods) == []
    found = audited(control_plane)
    assert (found["notEnforcing"], found["notEnforcedPods"]) == (["weak"], [])
    assert examined(control_plane) == ""


def test_where_they_must_go_to_the_machine_that_enforces_none_everything_says_so(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets
) -> None:
    fill_strict_machines(pods)
    for name, cpu in (("seven", 7), ("four", 4)):
        (warning,) = warned(pods, pod(name, cpu=cpu))
        assert warning == f"SingleNUMANode is asked for, and the best node that fits now is weak; {SAID}"
        pods.wait_until_bound(name)
        note = pods.wait_until_told(name, "NotEnforced")
        assert note == f"bound to weak; {SAID}"
        # The leader removes what was reserved for it before it was bound.
        pods.wait_until_says(name, "placed on weak, NUMA nodes not certain yet\n")
        annotations = pods.get(name)["metadata"]["annotations"]
        assert annotations.keys().isdisjoint({NUMA, RESOURCE_STATUS})
        assert SAID in annotations[PLACEMENT].splitlines()
    assert {event["type"] for event in told(pods)} == {"Warning"}
    assert {pods.bound()[name] for name in ("seven", "four")} == {"weak"}
    # It is no false alarm: this kubelet spread the second.
    journal = {event["pod"].partition("/")[2]: event["containers"][0] for event in machines.events("admitted")}
    assert sorted(journal["four"]["cpusPerNuma"].values()) == [1, 3]
    assert machines.events("rejected") == []
    found = audited(control_plane)
    assert found["notEnforcedPods"] == [f"{pods.namespace}/four", f"{pods.namespace}/seven"]
    assert examined(control_plane).startswith("2 pods ask for a strict NUMA policy on nodes that enforce none (1 of 4")


@pytest.mark.usefixtures("machines")
def test_an_operator_can_forbid_it(webhook: LocalWebhook, pods: Pods) -> None:
    fill_strict_machines(pods)
    (replica,) = webhook.replicas
    webhook.upgrade({"settings": {**QUICK_LEASE, "unenforced": "Deny"}})
    webhook.roll_out(replica)
    try:
        wait_until_known(pods, len(FLEET))
        warned(pods, pod("seven", cpu=7))
        pods.wait_until_says("seven", "1 the node does not enforce the NUMA policy")
        assert is_gated(pods.get("seven"))
        pods.delete("full-0")
        pods.wait_until_bound("seven")
        assert (pods.bound()["seven"], told(pods)) == ("s0", [])
    finally:
        webhook.upgrade({"settings": QUICK_LEASE})
        webhook.roll_out(replica)
