"""The service is removed while pods wait: they are ungated and kube-scheduler binds them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster.api import ApiError
from tests.cluster.control_plane import CommandError
from tests.cluster.documented import commands, type_in
from tests.cluster.gated import PLACEMENT, Pods, pod
from tests.cluster.job_pods import job_pods
from tests.cluster.nodes import machines
from tests.cluster.racked import topology_of_racks
from tests.cluster.webhook_process import CHART, NAMESPACE, RELEASE, LocalWebhook, local_webhook
from tests.integration.members import create_all
from tests.unit.cli.conftest import run_command
from webhook.cli.ungater import TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
OPERATIONS = "docs/operations.md"
SINGLES, GANG = 12, 8
# No pod can be created or updated without the service.
STRICT = {"webhook": {"failurePolicy": "Fail"}}


@pytest.fixture
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    with topology_of_racks(control_plane), local_webhook(control_plane, values=STRICT) as webhook:
        yield webhook


@pytest.fixture
def waiting(webhook: LocalWebhook, known: Callable[..., None], pods: Pods) -> set[str]:
    """Singles and a gang that wait: the nodes have the CPUs in sum, but on no single NUMA node."""
    # out-0000..out-0003 ── 4 NUMA nodes [2 of 16 free] each; for the scheduler 64 CPUs each
    known(*(replace(one, free=(2,) * 4) for one in machines(4, 4, prefix="out")))
    pods.plane.api.in_parallel(partial(pods.create, pod(f"single-{number}", cpu=4)) for number in range(SINGLES))
    create_all(pods, "gang", GANG, cpu=4)
    names = {f"single-{number}" for number in range(SINGLES)} | {f"gang-{number}" for number in range(GANG)}
    assert pods.gated() == names
    for name in ("single-0", "gang-0"):
        pods.wait_until_told(name, "WaitingForPlacement")
    return names


def configurations(plane: ControlPlane) -> list[str]:
    """The webhook configurations of the release that are there."""
    items = [item for kind in KINDS for item in plane.api.get(f"{ADMISSION}/{kind}")["items"]]
    return [item["metadata"]["name"] for item in items if item["metadata"]["name"] == RELEASE]


def texts(pods: Pods) -> set[str]:
    return {raw["metadata"]["annotations"].get(PLACEMENT, "") for raw in pods.all().values()}


def test_an_uninstall_ungates_singles_and_gangs_and_the_scheduler_binds_them(
    control_plane: ControlPlane, waiting: set[str], pods: Pods
) -> None:
    with job_pods(control_plane, NAMESPACE) as jobs:
        control_plane.helm("uninstall", RELEASE, "--namespace", NAMESPACE)
    (run,) = jobs.runs
    assert (run.code, run.stderr) == (0, "")
    assert run.stdout.splitlines()[-1] == f"{len(waiting)} pods ungated"
    assert configurations(control_plane) == []
    assert pods.gated() == set()
    pods.wait_until_bound(*waiting)
    assert texts(pods) == {TEXT}
    assert control_plane.helm("list", "--short", "--namespace", NAMESPACE).split() == []
    for path in ("/apis/rbac.authorization.k8s.io/v1/clusterroles", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"):
        left = [item["metadata"]["name"] for item in control_plane.api.get(path)["items"]]
        assert f"{RELEASE}-uninstall" not in left


def test_an_uninstall_that_cannot_ungate_a_pod_fails_names_it_and_can_be_repeated(
    control_plane: ControlPlane, waiting: set[str], pods: Pods
) -> None:
    # Another project's webhook that does not answer: no update of a labelled pod is possible.
    control_plane.kubectl("label", "pod", "single-3", "--namespace", pods.namespace, "stubborn=yes")
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}
    hook = {
        "name": "stubborn.example.com",
        "rules": [rule],
        "clientConfig": {"url": "https://127.0.0.1:1"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "objectSelector": {"matchLabels": {"stubborn": "yes"}},
    }
    control_plane.api.create(f"{ADMISSION}/{KINDS[1]}", {"metadata": {"name": "stubborn"}, "webhooks": [hook]})
    refused = partial(pods.update_is_refused, "single-3", "stubborn.example.com")
    try:
        control_plane.wait_for("its first refusal", refused)
        control_plane.helm(
            *("upgrade", RELEASE, CHART, "--namespace", NAMESPACE, "--reuse-values"),
            *("--set", "uninstall.timeoutSeconds=20"),
        )
        with job_pods(control_plane, NAMESPACE) as jobs, pytest.raises(CommandError):
            control_plane.helm("uninstall", RELEASE, "--namespace", NAMESPACE)
        assert jobs.runs
        assert {run.code for run in jobs.runs} == {1}
        assert f"still gated: {pods.namespace}/single-3: " in jobs.runs[0].stderr
        assert pods.gated() == {"single-3"}
    finally:
        control_plane.api.delete(f"{ADMISSION}/{KINDS[1]}/stubborn")
    control_plane.wait_for("it to be called no more", lambda: not refused())
    with job_pods(control_plane, NAMESPACE) as jobs:
        control_plane.helm("uninstall", RELEASE, "--namespace", NAMESPACE)
    assert [run.code for run in jobs.runs] == [0]
    pods.wait_until_bound(*waiting)


def test_an_administrator_ungates_while_the_service_runs_and_a_tenant_cannot(
    control_plane: ControlPlane, waiting: set[str], pods: Pods
) -> None:
    control_plane.kubectl(
        *("create", "rolebinding", "tenant", "--clusterrole=edit", f"--serviceaccount={pods.namespace}:default"),
        *("--namespace", pods.namespace),
    )
    tenant = control_plane.service_account_kubeconfig(pods.namespace, "default")
    done = run_command("ungate", "--namespace", pods.namespace, "--kubeconfig", tenant)
    assert (done.code, pods.gated()) == (1, waiting)
    assert done.stderr.count("may not") >= len(waiting)
    done = run_command("ungate", "--all", "--kubeconfig", control_plane.kubeconfig)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"{len(waiting)} pods ungated"
    control_plane.wait_for("its text to stay", lambda: texts(pods) == {TEXT})
    assert len(configurations(control_plane)) == 2


def test_when_the_namespace_is_gone_the_line_of_the_docs_frees_every_pod(
    control_plane: ControlPlane, webhook: LocalWebhook, waiting: set[str], pods: Pods
) -> None:
    for replica in webhook.replicas:
        replica.process.kill()
    with pytest.raises(ApiError, match="failed calling webhook"):
        pods.create(pod("refused", cpu=1))
    type_in(control_plane, *commands(OPERATIONS, "### The namespace is gone", "console"))
    control_plane.wait_for("the webhooks to be gone", lambda: not webhook.is_called())
    (line,) = commands(OPERATIONS, "### With kubectl alone", "bash")
    type_in(control_plane, line)
    assert pods.gated() == set()
    pods.create(pod("admitted", cpu=1))
    pods.wait_until_bound("admitted", *waiting)


def test_without_helm_the_commands_of_the_docs_remove_everything_cluster_wide(
    control_plane: ControlPlane, waiting: set[str], pods: Pods
) -> None:
    *lines, delete_namespace = commands(OPERATIONS, "### Without Helm", "console")
    assert delete_namespace == f"kubectl delete namespace {NAMESPACE}"
    type_in(control_plane, *lines)
    pods.wait_until_bound(*waiting)
    assert configurations(control_plane) == []
    left = control_plane.kubectl(
        *("get", "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"),
        *("--selector", f"app.kubernetes.io/instance={RELEASE}", "--output", "name"),
    )
    assert left == ""
