"""The chart in a real cluster: what the API server makes of it, and what is left of it."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from tests.chart.helm import CHART
from tests.cluster.api import ApiError
from tests.cluster.control_plane import CommandError, ControlPlane

RELEASE = "chart-test"
FULL_NAME = "chart-test-topology-webhook"
# Nobody listens there: a call fails at once, so that one sees by Fail which pods are asked about.
NOBODY = {"failurePolicy": "Fail", "url": "https://127.0.0.1:1"}
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Release:
    """The chart, installed in a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.account = f"system:serviceaccount:{namespace}:{FULL_NAME}"

    def upgrade(self, values: Mapping[str, Any] | None = None) -> None:
        self.plane.helm(
            *("upgrade", "--install", RELEASE, CHART, "--namespace", self.namespace, "--values", "-"),
            input=yaml.safe_dump(dict(values or {})),
        )

    def rollback(self, revision: int) -> None:
        self.plane.helm("rollback", RELEASE, str(revision), "--namespace", self.namespace)

    def uninstall(self) -> None:
        self.plane.helm("uninstall", RELEASE, "--namespace", self.namespace, "--ignore-not-found")

    def apply_as_the_service(self, name: str, data: Mapping[str, str], manager: str) -> None:
        """Write a Secret as the pods do."""
        metadata = {"name": name, "namespace": self.namespace}
        self.plane.kubectl(
            *("apply", "--server-side", f"--field-manager={manager}", f"--as={self.account}", "-f", "-"),
            input=json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": dict(data)}),
        )

    def patch_as_the_service(self, name: str) -> None:
        """Write caBundle into a configuration as the pods do."""
        bundle = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": "Y2E="} for index in range(3)
        ]
        self.plane.kubectl(
            *("patch", "mutatingwebhookconfiguration", name, "--type=json", f"--as={self.account}"),
            *("--patch", json.dumps(bundle)),
        )

    @property
    def secret(self) -> dict[str, str]:
        secret = self.plane.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/{FULL_NAME}-ca")
        return dict(secret.get("data", {}))

    @property
    def called(self) -> list[tuple[int, str]]:
        """Timeout and caBundle of each mutating webhook."""
        webhooks = self.plane.api.get(f"{CONFIGURATIONS}/{FULL_NAME}")["webhooks"]
        return [(webhook["timeoutSeconds"], webhook["clientConfig"]["caBundle"]) for webhook in webhooks]


@pytest.fixture
def release(control_plane: ControlPlane, namespace: str) -> Iterator[Release]:
    """A release to be installed; uninstalled afterwards whatever happened."""
    release = Release(control_plane, namespace)
    yield release
    release.uninstall()


def pod(**differences: Any) -> dict[str, Any]:
    metadata = {"generateName": "asked-", **differences.pop("metadata", {})}
    spec = {"containers": [{"name": "main", "image": "none"}], **differences}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def asked(plane: ControlPlane, namespace: str, body: Mapping[str, Any]) -> str:
    """Which webhook is asked about the creation of a pod: "mutate", "validate" or "" when none."""
    try:
        plane.api.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    except ApiError as error:
        if "failed calling webhook" not in error.message:
            raise
        return error.message.partition('webhook "')[2].partition(".")[0]
    return ""


@contextmanager
def other_namespace(plane: ControlPlane, name: str) -> Iterator[str]:
    plane.create_namespace(name)
    yield name
    plane.delete_namespace(name)


def test_the_api_server_asks_about_those_pods_only_whose_place_is_open(
    control_plane: ControlPlane, release: Release
) -> None:
    owner = {"apiVersion": "apps/v1", "name": "owner", "uid": "1", "controller": True}

    def owned_by(kind: str) -> dict[str, Any]:
        return pod(metadata={"ownerReferences": [{**owner, "kind": kind}]})

    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    with other_namespace(control_plane, f"{release.namespace}-pods") as pods:
        release.upgrade({"webhook": NOBODY})
        control_plane.wait_for("the configuration to count", lambda: asked(control_plane, pods, pod()))

        assert asked(control_plane, pods, pod()) == "mutate"
        assert asked(control_plane, pods, owned_by("ReplicaSet")) == "mutate"
        assert asked(control_plane, pods, owned_by("DaemonSet")) == ""
        # A pod that names its node is not steered, but what its annotations say is still checked.
        assert asked(control_plane, pods, pod(nodeName="n0")) == "validate"
        assert asked(control_plane, pods, pod(nodeName="n0", metadata=mirror)) == ""
        # The release's own pods must come up when no replica is there to allow it.
        assert asked(control_plane, release.namespace, pod()) == ""
        assert asked(control_plane, "kube-system", pod()) == ""


def test_an_update_is_asked_about_when_annotations_labels_or_gates_change(
    control_plane: ControlPlane, release: Release
) -> None:
    with other_namespace(control_plane, f"{release.namespace}-pods") as pods:
        path = f"/api/v1/namespaces/{pods}/pods"
        gated = pod(metadata={"name": "one"})
        gated["spec"]["schedulingGates"] = [{"name": "example.com/a"}]
        control_plane.api.create(path, gated)
        release.upgrade({"webhook": NOBODY})
        control_plane.wait_for("the configuration to count", lambda: asked(control_plane, pods, pod()))

        for finalizers in (["example.com/a"], []):
            control_plane.api.patch(f"{path}/one", {"metadata": {"finalizers": finalizers}})
        changes: list[dict[str, Any]] = [
            {"metadata": {"annotations": {"a": "b"}}},
            {"metadata": {"labels": {"a": "b"}}},
            {"spec": {"schedulingGates": []}},
        ]
        for change in changes:
            with pytest.raises(ApiError, match=r"validate\.pods\.topology-webhook\.dev"):
                control_plane.api.patch(f"{path}/one", change)


def test_the_readmes_ways_to_be_asked_less_work(control_plane: ControlPlane, release: Release) -> None:
    readme = (CHART / "README.md").read_text().partition("### Only some pods")[2]
    by_annotation, by_namespace = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)[:2])
    with other_namespace(control_plane, f"{release.namespace}-pods") as pods:
        annotated = pod(metadata={"annotations": {"kai.scheduler/topology": "dc"}})
        release.upgrade({"webhook": {**by_annotation["webhook"], **NOBODY}})
        control_plane.wait_for("the configuration to count", lambda: asked(control_plane, pods, annotated))
        assert asked(control_plane, pods, pod()) == ""
        assert asked(control_plane, pods, pod(metadata={"annotations": {"a": "b"}})) == ""

        release.upgrade({"webhook": {**by_namespace["webhook"], **NOBODY}})
        control_plane.wait_for("the new one to count", lambda: not asked(control_plane, pods, annotated))
        control_plane.kubectl("label", "namespace", pods, "topology-webhook.dev/enabled=true")
        control_plane.wait_for("the label to count", lambda: asked(control_plane, pods, pod()))


def test_nobody_answers_and_pods_are_admitted_as_they_came(control_plane: ControlPlane, release: Release) -> None:
    release.upgrade({"webhook": {"url": NOBODY["url"]}})
    assert asked(control_plane, "default", pod()) == ""


def test_the_service_has_these_rights_and_no_others(control_plane: ControlPlane, release: Release) -> None:
    release.upgrade()
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": release.namespace},
    }
    answer = control_plane.kubectl(
        *("create", f"--as={release.account}", "--validate=false", "-f", "-", "-o", "json"), input=json.dumps(review)
    )
    everybody = {"authentication.k8s.io", "authorization.k8s.io"}  # whoami and can-i
    rights: dict[tuple[str, ...], set[str]] = {}
    for rule in json.loads(answer)["status"]["resourceRules"]:
        for resource in rule["resources"]:
            if not everybody & set(rule["apiGroups"]):
                rights.setdefault((resource, *rule.get("resourceNames", ())), set()).update(rule["verbs"])
    read = {"get", "list", "watch"}
    assert rights == {
        ("nodes",): read,
        ("pods",): {*read, "patch"},
        ("noderesourcetopologies",): read,
        ("topologies",): read,
        ("podgroups",): {*read, "create", "patch"},
        ("mutatingwebhookconfigurations", FULL_NAME): {*read, "patch"},
        ("validatingwebhookconfigurations", FULL_NAME): {*read, "patch"},
        ("secrets", f"{FULL_NAME}-ca"): {"get", "create", "patch"},
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


def test_the_service_may_do_nothing_that_changes_the_cluster(control_plane: ControlPlane, release: Release) -> None:
    def may(verb: str, group: str, resource: str, namespace: str, name: str = "") -> bool:
        """What `kubectl auth can-i` asks."""
        resource, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        spec = {"user": release.account, "resourceAttributes": {**attributes, "namespace": namespace, "name": name}}
        answer = control_plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        return bool(answer["status"]["allowed"])

    release.upgrade()
    assert may("get", "", "secrets", release.namespace, f"{FULL_NAME}-ca")
    for namespace in (release.namespace, "kube-system"):
        for verb in ("create", "update", "patch", "delete"):
            # Patching places a pod that waits behind the gate, and labels the leader's own.
            assert may(verb, "", "pods", namespace) == (verb == "patch")
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


def test_the_service_writes_its_own_secret_and_no_other(release: Release) -> None:
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


def test_what_the_service_wrote_survives_upgrade_and_rollback(release: Release) -> None:
    release.upgrade()
    assert release.secret == {}
    release.apply_as_the_service(f"{FULL_NAME}-ca", {"ca.crt": "Y2E="}, manager="first")
    release.patch_as_the_service(FULL_NAME)

    release.upgrade({"webhook": {"timeoutSeconds": 7, "failurePolicy": "Ignore"}})
    assert release.called == [(7, "Y2E=")] * 3
    assert release.secret == {"ca.crt": "Y2E="}

    release.rollback(1)
    assert release.called == [(5, "Y2E=")] * 3
    assert release.secret == {"ca.crt": "Y2E="}


def test_an_uninstall_leaves_nothing_behind(control_plane: ControlPlane, release: Release) -> None:
    kinds = control_plane.kubectl("api-resources", "--verbs=list", "--output=name").split()
    # What the API server and the controllers note down by themselves, release or not.
    kinds = [kind for kind in kinds if not kind.startswith(("events", "componentstatuses", "leases", "pods.metrics"))]

    def everything() -> set[str]:
        columns = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"
        return set(
            control_plane.kubectl("get", ",".join(kinds), "--all-namespaces", "--no-headers", "-o", columns).split("\n")
        )

    before = everything()
    release.upgrade()
    release.apply_as_the_service(f"{FULL_NAME}-ca", {"ca.crt": "Y2E="}, manager="first")
    release.patch_as_the_service(FULL_NAME)
    control_plane.wait_for("the pods", lambda: any(line.startswith("Pod ") for line in everything() - before))
    release.uninstall()
    control_plane.wait_for("the last of it to go", lambda: everything() <= before)


def test_the_same_release_name_elsewhere_is_refused(control_plane: ControlPlane, release: Release) -> None:
    release.upgrade()
    with other_namespace(control_plane, f"{release.namespace}-two") as second, pytest.raises(CommandError) as raised:
        control_plane.helm("install", RELEASE, CHART, "--namespace", second)
    assert FULL_NAME in str(raised.value)
