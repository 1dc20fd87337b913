"""`topology-webhook doctor` and `helm test`: all is well on a sound installation, and each fault is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.control_plane import CommandError
from tests.cluster.gated import Pods, pod
from tests.cluster.job_pods import job_pods
from tests.cluster.nodes import machines
from tests.cluster.webhook_process import CHART, NAMESPACE, RELEASE, LocalWebhook, local_webhook
from tests.unit.cli.conftest import run_command
from webhook.cli.doctor.checks import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
QUICK = {"settings": {"leaseDurationSeconds": 3}}


@pytest.fixture
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    with local_webhook(control_plane, values=QUICK) as webhook:
        assert webhook.wait_until_called()
        yield webhook


@pytest.fixture
def sound(webhook: LocalWebhook, known: Callable[..., None]) -> LocalWebhook:
    """An installation without a fault, on two nodes that publish their NUMA nodes."""
    known(*machines(2, 2, prefix="doctor"))
    return webhook


def examine(kubeconfig: Path, *arguments: str) -> tuple[int, list[dict[str, str]]]:
    """The exit code and the findings of `doctor`."""
    done = run_command("doctor", "--output=json", f"--kubeconfig={kubeconfig}", *arguments)
    assert done.stderr == ""
    findings: list[dict[str, str]] = done.json["findings"]
    return done.code, findings


def faults(plane: ControlPlane, *arguments: str) -> Mapping[str, str]:
    """The text of each check that does not say ok; its level comes first."""
    code, findings = examine(plane.kubeconfig, *arguments)
    found = {each["check"]: f"{each['level']}: {each['text']}" for each in findings if each["level"] != "ok"}
    assert code == int(any(text.startswith("fail") for text in found.values()))
    assert all(each["cure"] for each in findings if each["level"] != "ok")
    return found


def hooks_left(plane: ControlPlane) -> set[str]:
    kinds = "pods,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings"
    names = plane.kubectl("get", kinds, "--all-namespaces", "--output=name").split()
    return {name for name in names if f"/{RELEASE}-test" in name}


def test_helm_test_passes_on_a_sound_installation_and_leaves_only_its_pod(
    control_plane: ControlPlane, sound: LocalWebhook
) -> None:
    with job_pods(control_plane, NAMESPACE) as jobs:
        control_plane.helm("test", RELEASE, "--namespace", NAMESPACE)
    (run,) = jobs.runs
    assert (run.code, run.stderr) == (0, "")
    *lines, summary = run.stdout.splitlines()
    assert {line.split()[0] for line in lines} == {"ok"}
    assert list(dict.fromkeys(line.split()[1] for line in lines)) == list(NAMES)
    assert summary == f"{len(lines)} ok, 0 warn, 0 fail"
    assert "denied in default: " in run.stdout
    assert "admitted in default, gated: " in run.stdout
    assert f"{sound.replicas[0].name} leads" in run.stdout
    assert hooks_left(control_plane) == {f"pod/{RELEASE}-test"}


def test_helm_test_fails_with_the_reason_and_takes_its_rights_away(
    control_plane: ControlPlane, sound: LocalWebhook
) -> None:
    sound.replicas[0].process.kill()
    control_plane.wait_for("the webhook to be silent", lambda: not sound.is_called())
    with job_pods(control_plane, NAMESPACE) as jobs, pytest.raises(CommandError):
        control_plane.helm("test", RELEASE, "--namespace", NAMESPACE)
    (run,) = jobs.runs
    assert run.code == 1
    assert "fail  good-pod" in run.stdout
    assert hooks_left(control_plane) == {f"pod/{RELEASE}-test"}


def test_with_no_replica_all_that_depends_on_one_fails(
    control_plane: ControlPlane, sound: LocalWebhook, pods: Pods
) -> None:
    pods.create(pod("waits", annotations={"pod-group-name": "waits", "topology-webhook.dev/min-member": "2"}))
    assert pods.gated() == {"waits"}
    sound.replicas[0].process.kill()
    control_plane.wait_for("the webhook to be silent", lambda: not sound.is_called())
    found = faults(control_plane)
    assert found["leader"].startswith("fail: ")
    assert "has not renewed it for 3 s" in found["leader"]
    assert found["good-pod"].startswith("fail: a pod with an annotation was admitted in default unchanged")
    assert found["bad-pod"].startswith("fail: a pod with an invalid annotation was admitted in default")
    assert found["gates"].startswith("fail: 1 pod is gated")


def test_a_closed_webhook_without_a_replica_refuses_the_good_pod(
    control_plane: ControlPlane, sound: LocalWebhook
) -> None:
    control_plane.helm(
        *("upgrade", RELEASE, CHART, "--namespace", NAMESPACE, "--reuse-values", "--set", "webhook.failurePolicy=Fail")
    )
    sound.replicas[0].process.kill()

    def refused() -> bool:
        return "the API server cannot reach the service" in faults(control_plane)["good-pod"]

    control_plane.wait_for("the policy to be Fail", refused)


def test_each_missing_object_is_named(control_plane: ControlPlane, sound: LocalWebhook) -> None:
    control_plane.kubectl("delete", "clusterrolebinding", RELEASE)
    control_plane.kubectl("delete", "validatingadmissionpolicybinding", f"{RELEASE}-pods")
    control_plane.kubectl("delete", "mutatingwebhookconfiguration", RELEASE)
    control_plane.wait_for("the webhook to be silent", lambda: "good-pod" in faults(control_plane))
    found = faults(control_plane)
    assert f"{NAMESPACE}/{RELEASE} may not: list namespaces, watch namespaces" in found["rights"]
    assert f"no ValidatingAdmissionPolicyBinding {RELEASE}-pods:" in found["protection"]
    assert found["webhooks"].startswith(f"fail: mutatingwebhookconfigurations/{RELEASE} is missing")
    assert "bad-pod" in found


def test_nodes_without_topologies_are_named(control_plane: ControlPlane, sound: LocalWebhook) -> None:
    control_plane.kubectl("delete", "noderesourcetopologies", "doctor-0001")
    control_plane.kubectl("label", "node", "doctor-0000", "node.koordinator.sh/numa-topology-policy=Restricted")
    assert faults(control_plane) == {
        "exporters": "warn: 1 of 2 nodes publish no NUMA nodes: doctor-0001",
        "policies": "warn: label and NodeResourceTopology name different policies: "
        "doctor-0000 (label RESTRICTED, topology SINGLE_NUMA_NODE)",
    }


def test_a_namespace_that_the_webhooks_exclude_is_no_trial(control_plane: ControlPlane, sound: LocalWebhook) -> None:
    found = faults(control_plane, "--trial-namespace=kube-system")
    assert found.keys() == {"good-pod", "bad-pod"}
    assert "kube-system" in found["good-pod"]


@pytest.mark.usefixtures("sound")
def test_in_observe_no_pod_is_tried(control_plane: ControlPlane) -> None:
    control_plane.helm(
        *("upgrade", RELEASE, CHART, "--namespace", NAMESPACE, "--reuse-values", "--set", "settings.mode=Observe")
    )
    found = faults(control_plane)
    assert found["good-pod"].startswith("warn: settings.mode is Observe: ")
    assert {check: text for check, text in found.items() if text.startswith("fail")} == {}


def test_another_release_is_not_found(control_plane: ControlPlane, sound: LocalWebhook) -> None:
    found = faults(control_plane, "--name=other")
    assert found["replicas"] == f"fail: there is no Deployment {NAMESPACE}/other"
    assert "no replica leads" in found["leader"]


def test_what_a_user_may_not_read_is_a_warning(
    control_plane: ControlPlane, sound: LocalWebhook, namespace: str
) -> None:
    tenant = control_plane.service_account_kubeconfig(namespace, "default")
    code, findings = examine(tenant)
    levels: dict[str, Any] = {each["check"]: (each["level"], each["text"].partition(":")[0]) for each in findings}
    assert code == 0
    assert levels["kubernetes"][0] == levels["crds"][0] == "ok"
    assert levels["leader"] == levels["good-pod"] == levels["exporters"] == ("warn", "not checked")
