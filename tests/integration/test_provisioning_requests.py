"""ProvisioningRequests for gangs on the real kube-apiserver: made, read, cancelled, and never mixed up with others'.

No autoscaler runs here: the test writes what it would answer, and adds the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.gated import PLACEMENT, Pods, is_gated, pod
from tests.cluster.nodes import Machine, delete_nodes
from tests.cluster.provisioning_requests import provisioning_requests, requests_of, requests_path, templates_of
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from tests.unit.cli.conftest import run_command
from webhook.model.names import MIN_MEMBER, POD_GROUP_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
POOL = {"cloud.google.com/gke-nodepool": "blue"}
# pool-0 ── NUMA 0 [3 of 16 free]  NUMA 1 [3 of 16 free]
FULL = Machine("pool-0", free=(3, 3), labels=POOL)
NEW = Machine("pool-1", free=(16, 16), labels=POOL)


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    settings = {**QUICK_LEASE, "autoscaler": "ClusterAutoscaler", "provisioningClass": ATOMIC}
    with local_webhook(control_plane, values={"settings": settings}) as webhook:
        yield webhook


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane) -> Iterator[None]:
    with provisioning_requests(control_plane):
        yield


@pytest.fixture
def later_nodes(control_plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Nodes that the test adds itself are gone afterwards. They outlive the pods of its namespace."""
    del namespace
    yield
    delete_nodes(control_plane.api, [NEW.name])


def member(name: str) -> dict[str, Any]:
    tolerations = [{"key": "example.com/batch", "operator": "Exists"}]
    selector = {"matchLabels": {"job": "j"}}
    apart = [{"topologyKey": "example.com/slot", "labelSelector": selector}]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}
    raw = pod(name, annotations={POD_GROUP_NAME: "g", MIN_MEMBER: "2"}, tolerations=tolerations, affinity=affinity)
    raw["metadata"]["labels"] = {"job": "j", "index": name}
    return raw


def create_gang(pods: Pods) -> None:
    for name in ("a", "b"):
        assert is_gated(pods.create(member(name)))


def the_request(pods: Pods) -> dict[str, Any]:
    """Wait for the request of the gang, and return it."""
    pods.plane.wait_for("the request", lambda: requests_of(pods.plane, pods.namespace))
    (raw,) = requests_of(pods.plane, pods.namespace)
    return raw


def answer(pods: Pods, name: str, *conditions: tuple[str, str, str]) -> None:
    """Answer a request as the autoscaler does: (type, status, reason) of its conditions."""
    written = [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": "said so",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
        for type_, status, reason in conditions
    ]
    path = f"{requests_path(pods.namespace)}/{name}/status"
    pods.plane.api.patch(path, {"status": {"conditions": written}})


def doctor(plane: ControlPlane) -> str:
    """What `doctor` prints."""
    return run_command("doctor", "--output=json", f"--kubeconfig={plane.kubeconfig}").stdout


def wait_until_says(pods: Pods, name: str, text: str) -> None:
    """Wait until the placement of a pod has this text, however its lines are broken."""

    def says() -> bool:
        return text in " ".join(pods.get(name)["metadata"]["annotations"].get(PLACEMENT, "").split())

    pods.plane.wait_for(f"{name} to say {text!r}", says)


def is_marked(raw: dict[str, Any]) -> bool:
    return any(one.get("reason") == "Unschedulable" for one in raw["status"].get("conditions") or ())


def test_nothing_is_written_until_the_kind_is_served(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(FULL)
    create_gang(pods)
    wait_until_says(pods, "a", "the cluster does not serve ProvisioningRequests")
    assert templates_of(control_plane, pods.namespace) == []
    assert "provisioningrequests.autoscaling.x-k8s.io is not served" in doctor(control_plane)
    with provisioning_requests(control_plane):
        assert "provisioningrequests.autoscaling.x-k8s.io is not served" not in doctor(control_plane)
        the_request(pods)
    wait_until_says(pods, "a", "the cluster does not serve ProvisioningRequests")
    with pytest.raises(ApiError):
        requests_of(control_plane, pods.namespace)


@pytest.mark.usefixtures("served", "later_nodes")
def test_a_gang_is_asked_for_together_and_the_request_goes_when_it_is_placed(
    known: Callable[..., None], create_machines: Callable[..., None], pods: Pods
) -> None:
    known(FULL)
    create_gang(pods)
    raw = the_request(pods)
    ((pod_set),) = raw["spec"]["podSets"]
    assert (raw["spec"]["provisioningClassName"], pod_set["count"]) == (ATOMIC, 2)
    (template,) = templates_of(pods.plane, pods.namespace)
    assert template["metadata"]["name"] == pod_set["podTemplateRef"]["name"]
    owners = {owner["name"] for owner in raw["metadata"]["ownerReferences"]}
    assert owners == {owner["name"] for owner in template["metadata"]["ownerReferences"]} == {"a", "b"}
    spec = template["template"]["spec"]
    assert template["template"]["metadata"]["labels"] == {"job": "j"}
    assert "schedulingGates" not in spec
    assert "example.com/batch" in {each["key"] for each in spec["tolerations"]}
    assert spec["containers"][0]["resources"]["requests"]["cpu"] == "8"
    assert "cloud.google.com/gke-nodepool" in str(spec["affinity"]["nodeAffinity"])
    wait_until_says(pods, "a", f"ProvisioningRequest {raw['metadata']['name']} for 2 pods at once: no answer yet")

    name = raw["metadata"]["name"]
    answer(pods, name, ("Accepted", "True", "Accepted"))
    wait_until_says(pods, "a", "it is accepted")
    answer(pods, name, ("Accepted", "True", "Accepted"), ("Provisioned", "True", "CapacityIsProvisioned"))
    wait_until_says(pods, "b", "it is provisioned (CapacityIsProvisioned: said so)")
    assert not any(map(is_marked, pods.all().values()))
    assert pods.gated() == {"a", "b"}

    create_machines(NEW)
    pods.wait_until_bound("a", "b")
    pods.plane.wait_for("the request to be cancelled", lambda: not requests_of(pods.plane, pods.namespace))
    pods.plane.wait_for("its template to go", lambda: not templates_of(pods.plane, pods.namespace))


@pytest.mark.usefixtures("served")
def test_a_request_that_failed_is_cancelled_and_the_pods_say_why(known: Callable[..., None], pods: Pods) -> None:
    known(FULL)
    create_gang(pods)
    name = the_request(pods)["metadata"]["name"]
    answer(pods, name, ("Failed", "True", "Expired"))
    wait_until_says(pods, "a", f"ProvisioningRequest {name}: it failed (Expired: said so)")
    pods.plane.wait_for("its end", lambda: not requests_of(pods.plane, pods.namespace))
    pods.plane.wait_for("its template to go", lambda: not templates_of(pods.plane, pods.namespace))


@pytest.mark.usefixtures("served")
def test_a_request_ends_with_the_gang(known: Callable[..., None], pods: Pods) -> None:
    known(FULL)
    create_gang(pods)
    the_request(pods)
    pods.delete("a", "b")
    pods.plane.wait_for("the request to go", lambda: not requests_of(pods.plane, pods.namespace))
    pods.plane.wait_for("its template to go", lambda: not templates_of(pods.plane, pods.namespace))


@pytest.mark.usefixtures("served")
def test_requests_that_others_wrote_with_our_labels_are_left_alone(known: Callable[..., None], pods: Pods) -> None:
    known(FULL)
    create_gang(pods)
    raw = the_request(pods)
    metadata = {field: raw["metadata"][field] for field in ("labels", "annotations")}
    copy = {**raw, "metadata": {**metadata, "name": "copy"}}
    copy.pop("status", None)
    pods.plane.api.create(requests_path(pods.namespace), copy)
    answer(pods, "copy", ("Failed", "True", "Forged"))
    answer(pods, raw["metadata"]["name"], ("Accepted", "True", "Accepted"))
    wait_until_says(pods, "a", "it is accepted")
    pods.delete("a", "b")

    def left() -> set[str]:
        return {each["metadata"]["name"] for each in requests_of(pods.plane, pods.namespace)}

    pods.plane.wait_for("ours to go", lambda: left() == {"copy"})


@pytest.mark.usefixtures("served")
def test_a_quota_that_is_used_up_is_told_to_the_gang(known: Callable[..., None], pods: Pods) -> None:
    known(FULL)
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/podtemplates": "0"}}}
    path = f"/api/v1/namespaces/{pods.namespace}"
    pods.plane.api.create(f"{path}/resourcequotas", quota)
    pods.plane.wait_for(
        "the quota to be counted",
        lambda: pods.plane.api.get(f"{path}/resourcequotas/none").get("status", {}).get("used"),
    )
    create_gang(pods)
    wait_until_says(pods, "a", "and will be again: a ResourceQuota of the namespace is used up")
    assert requests_of(pods.plane, pods.namespace) == []
    assert not any(map(is_marked, pods.all().values()))


@pytest.mark.usefixtures("served")
def test_the_next_leader_continues_with_the_request_that_is_there(
    known: Callable[..., None], pods: Pods, webhook: LocalWebhook
) -> None:
    known(FULL)
    create_gang(pods)
    before = the_request(pods)
    (replica,) = webhook.replicas
    replica.process.stop()
    answer(pods, before["metadata"]["name"], ("Accepted", "True", "Accepted"))
    replica.start_again()
    wait_until_says(pods, "a", "it is accepted")
    assert the_request(pods)["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.usefixtures("served")
def test_both_objects_end_with_the_gang_even_without_the_service(
    known: Callable[..., None], pods: Pods, webhook: LocalWebhook
) -> None:
    known(FULL)
    create_gang(pods)
    the_request(pods)
    (replica,) = webhook.replicas
    replica.process.stop()
    try:
        pods.delete("a")
        assert requests_of(pods.plane, pods.namespace)
        pods.delete("b")
        pods.plane.wait_for("the request to go", lambda: not requests_of(pods.plane, pods.namespace))
        pods.plane.wait_for("its template to go", lambda: not templates_of(pods.plane, pods.namespace))
    finally:
        replica.start_again()
