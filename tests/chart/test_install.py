"""The chart in a real cluster: what it installs, and what remains after an uninstallation."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.chart.helm import CHART
from tests.chart.release import FULL_NAME, RELEASE, InstalledRelease, other_namespace
from tests.cluster.control_plane import CommandError, ControlPlane
from tests.cluster.job_pods import job_pods
from tests.cluster.kinds import serving


def test_the_service_has_these_rights_and_no_others(control_plane: ControlPlane, release: InstalledRelease) -> None:
    release.upgrade()
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": release.namespace},
    }
    answer = control_plane.kubectl(
        *("create", f"--as={release.account}", "--validate=false", "-f", "-", "-o", "json"), input=json.dumps(review)
    )
    # whoami, can-i and, in 1.37, trust bundles
    everybody = {"authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io"}
    rights: dict[tuple[str, ...], set[str]] = {}
    for rule in json.loads(answer)["status"]["resourceRules"]:
        for resource in rule["resources"]:
            if not everybody & set(rule["apiGroups"]):
                rights.setdefault((resource, *rule.get("resourceNames", ())), set()).update(rule["verbs"])
    read = {"get", "list", "watch"}
    assert rights == {
        ("namespaces",): read,
        ("nodes",): read,
        # Preemption evicts, and deletes where a disruption budget is violated as a last resort.
        ("pods",): {*read, "patch", "delete"},
        ("pods/eviction",): {"create"},
        ("poddisruptionbudgets",): {"list", "watch"},
        ("pods/status",): {"patch"},
        ("noderesourcetopologies",): read,
        ("topologies",): read,
        ("podgroups",): {*read, "create", "patch"},
        ("podgroups/status",): {"patch"},
        ("mutatingwebhookconfigurations", FULL_NAME): {*read, "patch"},
        ("validatingwebhookconfigurations", FULL_NAME): {*read, "patch"},
        # Devices of Dynamic Resource Allocation, and which claims have them.
        ("resourceslices",): {"list", "watch"},
        # Those of pods behind the gate are allocated, and taken back.
        ("resourceclaims",): {*read, "patch"},
        ("resourceclaims/status",): {"patch"},
        ("resourceclaims/binding",): {"patch"},
        ("resourceclaimtemplates",): {"list", "watch"},
        ("deviceclasses",): {"list", "watch"},
        ("devicetaintrules",): {"list", "watch"},
        ("secrets", f"{FULL_NAME}-ca"): {"get", "create", "patch"},
        ("secrets", f"{FULL_NAME}-hint-key"): {"get", "create", "patch"},
        ("leases", FULL_NAME): {*read, "create", "patch"},
        ("events",): {"create"},
        # Owners of pods, what stands on them and how many pods start together; "*": any kind of the workload groups.
        ("cronjobs",): {"get"},
        ("deployments",): {"get"},
        ("jobs",): {"get"},
        ("replicasets",): {"get"},
        ("statefulsets",): {"get"},
        ("*",): {"get"},
    }


def _may(
    plane: ControlPlane, release: InstalledRelease, verb: str, group: str, resource: str, namespace: str, name: str = ""
) -> bool:
    """The result of `kubectl auth can-i`."""
    resource, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    spec = {"user": release.account, "resourceAttributes": {**attributes, "namespace": namespace, "name": name}}
    answer = plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize("settings", [{"preemption": "Never"}, {"mode": "Observe"}, {"mode": "Off"}])
def test_it_may_end_pods_only_where_it_preempts(
    control_plane: ControlPlane, release: InstalledRelease, settings: dict[str, str]
) -> None:
    may = partial(_may, control_plane, release)
    release.upgrade({"settings": settings})
    assert may("list", "", "pods", "kube-system")
    assert not may("delete", "", "pods", "kube-system")
    assert not may("create", "", "pods/eviction", "kube-system")
    assert not may("list", "policy", "poddisruptionbudgets", "kube-system")


def test_the_service_may_do_nothing_that_changes_the_cluster(
    control_plane: ControlPlane, release: InstalledRelease
) -> None:
    may = partial(_may, control_plane, release)
    release.upgrade()
    assert may("get", "", "secrets", release.namespace, f"{FULL_NAME}-ca")
    for namespace in (release.namespace, "kube-system"):
        for verb in ("create", "update", "patch", "delete"):
            # Patching places a pod that waits behind the gate. Preemption deletes.
            assert may(verb, "", "pods", namespace) == (verb in {"patch", "delete"})
            assert not may(verb, "", "nodes", "")
            assert not may(verb, "apps", "deployments", namespace)
            assert not may(verb, "rbac.authorization.k8s.io", "roles", namespace)
        assert not may("create", "", "pods/binding", namespace)
        assert not may("create", "", "serviceaccounts/token", namespace)
        for verb in ("list", "watch", "create"):
            assert not may(verb, "", "secrets", namespace)
        assert not may("get", "", "secrets", namespace, "other")
    configurations = "admissionregistration.k8s.io", "mutatingwebhookconfigurations", ""
    assert not may("patch", *configurations, "other")
    assert not may("delete", *configurations, FULL_NAME)


def test_the_service_writes_its_own_secret_and_no_other(release: InstalledRelease) -> None:
    release.upgrade()
    own, data = f"{FULL_NAME}-ca", {"ca.crt": "Y2E="}
    release.apply_as_the_service(own, data, manager="first")
    with pytest.raises(CommandError, match="conflict"):
        release.apply_as_the_service(own, {"ca.crt": "b3RoZXI="}, manager="second")
    with pytest.raises(CommandError, match="forbidden"):
        release.apply_as_the_service("other", data, manager="first")
    release.plane.kubectl("delete", "secret", own, "--namespace", release.namespace)
    release.apply_as_the_service(own, data, manager="first")
    assert release.secret == data


def test_what_the_service_wrote_survives_upgrade_and_rollback(release: InstalledRelease) -> None:
    release.upgrade()
    assert release.secret == {}
    release.apply_as_the_service(f"{FULL_NAME}-ca", {"ca.crt": "Y2E="}, manager="first")
    release.patch_as_the_service(FULL_NAME)

    release.upgrade({"webhook": {"timeoutSeconds": 7, "failurePolicy": "Ignore"}})
    assert release.called == [(7, "Y2E=")] * 6  # bindings, too, unless bindTimeoutSeconds is set
    assert release.secret == {"ca.crt": "Y2E="}

    release.rollback(1)
    assert release.called == [(5, "Y2E=")] * 6
    assert release.secret == {"ca.crt": "Y2E="}


def test_an_uninstall_leaves_nothing_behind(control_plane: ControlPlane, release: InstalledRelease) -> None:
    kinds = control_plane.kubectl("api-resources", "--verbs=list", "--output=name").split()
    # What the API server and the controllers note down by themselves, release or not.
    kinds = [kind for kind in kinds if not kind.startswith(("events", "componentstatuses", "leases", "pods.metrics"))]

    def everything() -> set[str]:
        columns = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"
        return set(
            control_plane.kubectl("get", ",".join(kinds), "--all-namespaces", "--no-headers", "-o", columns).split("\n")
        )

    def in_every_namespace() -> bool:
        """Whether the controllers have created what they create in each namespace."""
        return f"{release.namespace} kube-root-ca.crt" in {" ".join(line.split()[1:]) for line in everything()}

    control_plane.wait_for("the namespace to be complete", in_every_namespace)
    before = everything()
    release.upgrade()
    release.apply_as_the_service(f"{FULL_NAME}-ca", {"ca.crt": "Y2E="}, manager="first")
    release.patch_as_the_service(FULL_NAME)
    control_plane.wait_for("the pods", lambda: any(line.startswith("Pod ") for line in everything() - before))
    with job_pods(control_plane, release.namespace) as jobs:
        release.uninstall_with_hooks()
    assert [run.code for run in jobs.runs] == [0]
    control_plane.wait_for("the last of it to go", lambda: everything() <= before)


EXAMPLES = sorted((CHART.parents[1] / "examples" / "values").glob("*.yaml"))


@pytest.fixture
def operators_kinds(control_plane: ControlPlane) -> Iterator[None]:
    """Kinds of cert-manager and Prometheus Operator, without a controller."""
    kinds = {
        "cert-manager.io": ("Certificate", "Issuer"),
        "monitoring.coreos.com": ("ServiceMonitor", "PrometheusRule"),
    }
    with serving(control_plane, {(group, kind): ["v1"] for group, of_group in kinds.items() for kind in of_group}):
        yield


@pytest.mark.usefixtures("operators_kinds")
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_each_example_of_values_installs_as_it_is(
    control_plane: ControlPlane, release: InstalledRelease, file: Path
) -> None:
    control_plane.helm("install", RELEASE, CHART, "--namespace", release.namespace, "--values", file)
    path = f"/apis/apps/v1/namespaces/{release.namespace}/deployments/{FULL_NAME}"
    assert control_plane.api.get(path)["spec"]["replicas"] == yaml.safe_load(file.read_text()).get("replicaCount", 2)


def test_the_same_release_name_elsewhere_is_refused(control_plane: ControlPlane, release: InstalledRelease) -> None:
    release.upgrade()
    with other_namespace(control_plane, f"{release.namespace}-two") as second, pytest.raises(CommandError) as raised:
        control_plane.helm("install", RELEASE, CHART, "--namespace", second, "--set", "image.repository=none")
    assert FULL_NAME in str(raised.value)
