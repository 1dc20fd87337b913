"""`topology-webhook ungate` on pods that wait for a service that is not there, on the real API server."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import GATE, PLACEMENT, Pods, is_gated, pod
from tests.unit.cli.conftest import Printed, run_command
from webhook.cli.ungater import TEXT, Ungater
from webhook.kube.client import Client
from webhook.kube.credentials import from_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.cluster.control_plane import ControlPlane
    from webhook.model.raw import Raw

HOLD = {"name": "example.com/hold"}
OURS = {"name": GATE}
POLICY_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def waiting(name: str, *more: dict[str, str], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod with our gate and others. No scheduler of its name runs."""
    return pod(name, annotations=annotations, schedulingGates=[OURS, *more], schedulerName="not-running")


@pytest.fixture
def ungate(control_plane: ControlPlane) -> Callable[..., Printed]:
    """Run the command as the control plane's administrator."""
    return partial(run_command, "ungate", "--kubeconfig", control_plane.kubeconfig)


def placement(raw: Mapping[str, Any]) -> str:
    return str(raw["metadata"]["annotations"].get(PLACEMENT, ""))


def test_all_waiting_pods_of_a_namespace_are_ungated_and_other_gates_stay(
    control_plane: ControlPlane, pods: Pods, ungate: Callable[..., Printed]
) -> None:
    names = [f"p{number:02}" for number in range(20)]
    control_plane.api.in_parallel(partial(pods.create, waiting(name)) for name in names)
    pods.create(waiting("held", HOLD))
    pods.create(pod("other", schedulingGates=[HOLD]))
    dry = ungate("--namespace", pods.namespace, "--dry-run")
    assert (dry.code, dry.stderr) == (0, "")
    assert dry.stdout == f"{pods.namespace}: 21 pods would be ungated\n21 pods would be ungated\n"
    assert len(pods.gated()) == 21
    done = ungate("--namespace", pods.namespace)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout == f"{pods.namespace}: 21 pods ungated\n21 pods ungated\n"
    raws = pods.all()
    assert {name for name, raw in raws.items() if raw["spec"].get("schedulingGates") == [HOLD]} == {"held", "other"}
    assert {name for name, raw in raws.items() if not raw["spec"].get("schedulingGates")} == set(names)
    assert {name for name, raw in raws.items() if placement(raw) == TEXT} == {*names, "held"}


def test_a_namespace_leaves_the_others_alone(
    control_plane: ControlPlane, pods: Pods, ungate: Callable[..., Printed]
) -> None:
    pods.create(waiting("here"))
    done = ungate("--all", "--namespace", "default")
    assert (done.code, done.stdout) == (0, "0 pods ungated\n")
    assert pods.gated() == {"here"}


@contextmanager
def policy(plane: ControlPlane, name: str, expression: str, namespace: str) -> Iterator[None]:
    """A policy of another project that rejects updates of pods unless the CEL expression is true."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}
    message = "no touching\u001b[31m"
    validations = [{"expression": expression, "message": message}]
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations, "failurePolicy": "Fail"}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": selector},
    }
    plane.api.create(POLICIES, {"metadata": {"name": name}, "spec": spec})
    plane.api.create(f"{POLICY_BINDINGS}", {"metadata": {"name": name}, "spec": binding})
    try:
        yield
    finally:
        plane.api.delete(f"{POLICY_BINDINGS}/{name}")
        plane.api.delete(f"{POLICIES}/{name}")


def test_a_pod_that_cannot_be_written_is_named_and_the_others_are_ungated(
    control_plane: ControlPlane, pods: Pods, ungate: Callable[..., Printed]
) -> None:
    for name in ("a", "stubborn", "z"):
        pods.create(waiting(name))
    with policy(control_plane, f"stubborn-{pods.namespace}", "object.metadata.name != 'stubborn'", pods.namespace):
        control_plane.wait_for("the policy to count", partial(pods.update_is_refused, "stubborn", "no touching"))
        done = ungate("--namespace", pods.namespace)
    assert done.code == 1
    assert done.stdout == f"{pods.namespace}: 2 pods ungated\n2 pods ungated, 1 left\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"still gated: {pods.namespace}/stubborn: ")
    assert "no touching\\x1b[31m" in line
    assert pods.gated() == {"stubborn"}


def test_a_pod_whose_annotations_are_full_is_ungated_without_the_text(
    pods: Pods, ungate: Callable[..., Printed]
) -> None:
    raw = waiting("full")
    held = sum(len(key) + len(value) for key, value in raw["metadata"]["annotations"].items())
    raw["metadata"]["annotations"]["k"] = "v" * (256 * 1024 - held - 1)
    assert is_gated(pods.create(raw))
    done = ungate("--namespace", pods.namespace)
    assert (done.code, done.stderr) == (0, "")
    raw = pods.get("full")
    assert (is_gated(raw), placement(raw)) == (False, "")


class Meddler(Client):
    """A client after whose first list another user writes."""

    meddle: Callable[[], None] | None = None

    async def get(self, path: str, query: Mapping[str, str | int] | None = None) -> Raw:
        page = await super().get(path, query)
        if self.meddle is not None:
            self.meddle()
            self.meddle = None
        return page


async def test_a_pod_that_changed_meanwhile_is_tried_again_and_a_deleted_one_counts_as_gone(
    control_plane: ControlPlane, pods: Pods
) -> None:
    for name in ("changed", "deleted", "same"):
        pods.create(waiting(name))

    def meddle() -> None:
        control_plane.api.patch(f"{pods.path}/changed", {"metadata": {"annotations": {"team": "x"}}})
        pods.delete("deleted")

    async with Meddler(await from_kubeconfig(str(control_plane.kubeconfig), None)) as client:
        client.meddle = meddle
        ungater = Ungater(client, pods.namespace, page_size=2)
        await ungater.ungate(60, until_none=False)
    tally = ungater.tally
    assert (dict(tally.ungated), tally.gone, tally.failed, tally.complete) == ({pods.namespace: 2}, 1, {}, True)
    changed = pods.get("changed")
    assert (is_gated(changed), placement(changed), changed["metadata"]["annotations"]["team"]) == (False, TEXT, "x")


async def test_new_pods_are_left_to_a_service_that_still_runs_and_ungated_when_it_is_removed(
    control_plane: ControlPlane, pods: Pods
) -> None:
    for until_none, expected in ((False, {"late"}), (True, set[str]())):
        pods.create(waiting("stays" if until_none else "first"))

        def meddle() -> None:
            # Makes the first patch stale, so that there is a second pass.
            for name in pods.gated():
                control_plane.api.patch(f"{pods.path}/{name}", {"metadata": {"annotations": {"team": "x"}}})
            pods.create(waiting("later" if pods.gated() & {"late"} else "late"))

        async with Meddler(await from_kubeconfig(str(control_plane.kubeconfig), None)) as client:
            client.meddle = meddle
            await Ungater(client, pods.namespace, page_size=2, settle=0.5).ungate(60, until_none=until_none)
        assert pods.gated() == expected


def test_a_user_without_the_right_gets_an_error_and_nothing_changes(
    control_plane: ControlPlane, pods: Pods, ungate: Callable[..., Printed]
) -> None:
    pods.create(waiting("a"))
    kubeconfig = control_plane.service_account_kubeconfig(pods.namespace, "default")
    done = ungate("--namespace", pods.namespace, "--kubeconfig", kubeconfig)
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: 403 Forbidden: pods is forbidden")
    done = ungate("--all", "--remove-webhooks", "topology-webhook", "--kubeconfig", kubeconfig)
    assert (done.code, "mutatingwebhookconfigurations" in done.stderr) == (2, True)
    assert pods.gated() == {"a"}
