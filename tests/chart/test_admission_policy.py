"""The ValidatingAdmissionPolicies: what the API server denies by itself in every namespace, without the webhook."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from tests.chart.helm import Helm, Rendered
from tests.chart.release import FULL_NAME, InstalledRelease, other_namespace
from tests.cluster.api import JSON, MERGE_PATCH, ApiError
from tests.cluster.control_plane import ControlPlane
from webhook.admission.reserved_fields import OUTPUTS, forgery
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.model import names
from webhook.model.names import (
    INHERIT,
    INJECT_ENV,
    MANAGED_FIELDS,
    MIN_MEMBER,
    NUMA_ALLOCATION,
    PLACEMENT,
    PLACEMENT_GATE,
    RANK,
    RESOURCE_STATUS,
    STRATEGY,
)
from webhook.state.rules import Rules

ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
# No webhook is called: the API server is alone.
ALONE = {"webhook": {"url": "https://127.0.0.1:1", "failurePolicy": "Ignore", "bindFailurePolicy": "Ignore"}}
TRUSTED, SCHEDULER, TENANT, KUBELET = "koord-scheduler", "system:kube-scheduler", "alice", "system:node:n0"
BREAK_GLASS = "operators"
GATE = {"name": PLACEMENT_GATE}


def pod(name: str = "p", **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "none"}], "nodeSelector": {"never": "there"}, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def carrying(field: str, name: str, value: str = "x", **more: Any) -> dict[str, Any]:
    raw = pod(**more)
    raw["metadata"][field] = {name: value}
    return raw


class Users:
    """The pods of the namespaces, written by users to whom RBAC allows everything."""

    def __init__(self, plane: ControlPlane, release: InstalledRelease, namespace: str) -> None:
        self.plane = plane
        self.service = release.account
        self.namespace = namespace

    def path(self, namespace: str = "") -> str:
        return f"/api/v1/namespaces/{namespace or self.namespace}/pods"

    def refusal(
        self, user: str, method: str, path: str, body: object, *, dry_run: bool = True, group: str = "system:masters"
    ) -> str:
        """What the API server says to the user; empty when it does what was asked."""
        api = self.plane.api.acting_as(user, group)
        content_type = MERGE_PATCH if method == "PATCH" else JSON
        try:
            api.request(method, f"{path}?dryRun=All" if dry_run else path, body, content_type)
        except ApiError as error:
            if error.status != 403 or f"ValidatingAdmissionPolicy '{FULL_NAME}-" not in error.message:
                raise
            return error.message.partition("denied request: ")[2]
        finally:
            api.close()
        return ""


@pytest.fixture
def users(control_plane: ControlPlane, release: InstalledRelease) -> Iterator[Users]:
    # All users here are in system:masters, so that RBAC allows everything.
    release.upgrade({**ALONE, "settings": {"trustedUsers": [TRUSTED], "advanced": {"trustedGroups": [BREAK_GLASS]}}})
    with ExitStack() as stack:
        namespace = stack.enter_context(other_namespace(control_plane, f"{release.namespace}-pods"))
        users = Users(control_plane, release, namespace)
        subject = {"kind": "Group", "name": BREAK_GLASS, "apiGroup": "rbac.authorization.k8s.io"}
        role = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": BREAK_GLASS}, "roleRef": role, "subjects": [subject]}
        control_plane.api.create(ROLE_BINDINGS, binding)
        stack.callback(control_plane.api.delete, f"{ROLE_BINDINGS}/{BREAK_GLASS}")
        control_plane.wait_for("the policies to count", lambda: _count(users))
        yield users


def _count(users: Users) -> bool:
    """Whether both policies apply with this release's parameters: an earlier release may have trusted other users."""
    forged = carrying("annotations", NUMA_ALLOCATION)
    binding = {**forged, "kind": "Binding", "target": {"apiVersion": "v1", "kind": "Node", "name": "n0"}}
    writes = (users.path(), forged), (f"/api/v1/namespaces/{users.namespace}/bindings", binding)

    def refused(user: str, path: str, body: object) -> bool:
        try:
            return bool(users.refusal(user, "POST", path, body))
        except ApiError as error:
            if error.status != 404:  # admitted, and there is no such pod to bind
                raise
            return False

    return all(
        refused(TENANT, *write) and not any(refused(user, *write) for user in (TRUSTED, users.service))
        for write in writes
    )


def test_the_api_server_finds_nothing_to_warn_of_in_the_policies(
    control_plane: ControlPlane, release: InstalledRelease
) -> None:
    release.upgrade(ALONE)
    for which in ("pods", "bindings"):
        path = f"{POLICIES}/{FULL_NAME}-{which}"

        def checked(path: str = path) -> Any:
            policy = control_plane.api.get(path)
            observed = policy.get("status", {}).get("observedGeneration")
            return policy if observed == policy["metadata"]["generation"] else None

        policy = control_plane.wait_for("the types to be checked", checked)
        assert policy["status"].get("typeChecking", {}).get("expressionWarnings", []) == []
        assert policy["spec"]["failurePolicy"] == "Fail"


def test_the_policies_hold_in_all_namespaces_and_can_be_left_out(helm: Helm, rendered: Rendered) -> None:
    assert len(rendered.of("ValidatingAdmissionPolicy")) == 2
    for binding in rendered.of("ValidatingAdmissionPolicyBinding"):
        assert binding["spec"]["validationActions"] == ["Deny"]
        assert "matchResources" not in binding["spec"]
    for policy in rendered.of("ValidatingAdmissionPolicy"):
        assert (
            not {"namespaceSelector", "objectSelector", "excludeResourceRules"}
            & policy["spec"]["matchConstraints"].keys()
        )
    assert not helm.template({"admissionPolicy": {"enabled": False}}).of("ValidatingAdmissionPolicy")


@pytest.mark.parametrize("mode", ["Observe", "Off"])
def test_in_a_mode_that_denies_nothing_the_policies_only_audit(helm: Helm, mode: str) -> None:
    bindings = helm.template({"settings": {"mode": mode}}).of("ValidatingAdmissionPolicyBinding")
    assert [binding["spec"]["validationActions"] for binding in bindings] == [["Audit"], ["Audit"]]


# Names that are made of a level's are read by nothing, so the policy does not list them.
WHOLE = {name for key, name in vars(names).items() if key.isupper() and "/" in name and str(name)[-1] not in "/-"}
# A mirror pod needs a node, the label to manage is of namespaces, and the last is the type of a condition.
NAMES = sorted(WHOLE - {names.MIRROR_POD, names.MANAGE_LABEL, names.PLACED})


def test_policy_and_webhook_agree_on_every_name_and_way_to_write_it(users: Users) -> None:
    assert set(NAMES) > OUTPUTS
    users.plane.api.create(users.path(), pod("without", schedulingGates=[GATE]))
    for name in [*NAMES, "pod-group-name", "example.com/topology-webhook.dev"]:
        for field in ("annotations", "labels"):
            raw = carrying(field, name)
            by_policy = users.refusal(TENANT, "POST", users.path(), raw)
            by_webhook = forgery(_review("CREATE", raw), Rules())
            # The mutating webhook writes these itself, in the name of who creates the pod.
            written = {names.MANAGED, names.NUMA_DEFAULTS, names.SHARD, PLACEMENT, MANAGED_FIELDS}
            mutated = field == "annotations" and name in written
            assert bool(by_policy) == (by_webhook is not None and not mutated), (field, name)
            change = {"metadata": {field: {name: "x"}}}
            by_policy = users.refusal(TENANT, "PATCH", f"{users.path()}/without", change)
            by_webhook = forgery(_review("UPDATE", raw, pod()), Rules())
            assert bool(by_policy) == (by_webhook is not None) == (name in OUTPUTS), (field, name)
            if by_policy:
                assert f"metadata.{field}[{name}]" in by_policy


def _review(
    operation: str, raw: Mapping[str, Any], old: Mapping[str, Any] | None = None, group: str = "tenants"
) -> AdmissionRequest:
    request = {"uid": "1", "kind": {"kind": "Pod"}, "operation": operation, "object": raw, "oldObject": old}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    user = {"username": TENANT, "groups": [group]}
    return AdmissionRequest.from_object({**review, "request": {**request, "userInfo": user}})


@pytest.mark.parametrize("where", ["kube-system", "own", "other"])
def test_nobody_but_the_service_and_whom_the_operator_trusts_creates_a_pod_with_an_allocation(
    users: Users, release: InstalledRelease, where: str
) -> None:
    namespace = {"kube-system": "kube-system", "own": release.namespace, "other": users.namespace}[where]
    for name in (NUMA_ALLOCATION, RESOURCE_STATUS):
        create = partial(users.refusal, method="POST", path=users.path(namespace), body=carrying("annotations", name))
        for user in (TENANT, "admin", KUBELET, SCHEDULER, "system:serviceaccount:kube-system:replicaset-controller"):
            assert create(user) == (
                f"metadata.annotations[{name}]: Only topology-webhook writes this, and {user} may not set it. "
                "Remove it from the manifest."
            )
        assert create(users.service) == create(TRUSTED) == ""


@pytest.mark.parametrize("way", ["", "/status"])
def test_nobody_else_changes_or_removes_what_is_ours_on_any_way_that_writes_metadata(users: Users, way: str) -> None:
    raw = carrying("annotations", NUMA_ALLOCATION)
    raw["metadata"]["labels"] = {RANK: "1"}
    assert users.refusal(users.service, "POST", users.path(), raw, dry_run=False) == ""
    for field, name in (("annotations", NUMA_ALLOCATION), ("labels", RANK), ("annotations", PLACEMENT)):
        for value in ("other", None) if name != PLACEMENT else ("other",):
            change: dict[str, Any] = {"metadata": {field: {name: value}}}
            for user in (TENANT, KUBELET, SCHEDULER):
                told = users.refusal(user, "PATCH", f"{users.path()}/p{way}", change)
                assert told.startswith(f"metadata.{field}[{name}]: Only topology-webhook writes this, and {user} may ")
            assert users.refusal(users.service, "PATCH", f"{users.path()}/p{way}", change) == ""
    theirs: list[dict[str, Any]] = [
        {"metadata": {"annotations": {"team": "x", MIN_MEMBER: "2"}}},
        {"status": {"reason": "x"}},
    ]
    for change in theirs:
        assert users.refusal(TENANT, "PATCH", f"{users.path()}/p{way}", change) == ""


def test_what_users_ask_for_under_our_name_is_theirs(users: Users) -> None:
    for name in (INHERIT, INJECT_ENV, MIN_MEMBER, STRATEGY):
        assert users.refusal(TENANT, "POST", users.path(), carrying("annotations", name)) == ""


def test_everybody_adds_the_gate_and_only_the_service_and_trusted_groups_remove_it(users: Users) -> None:
    hold = {"name": "example.com/hold"}
    assert users.refusal(TENANT, "POST", users.path(), pod(schedulingGates=[GATE, hold]), dry_run=False) == ""
    without = {"spec": {"schedulingGates": [hold]}}
    told = users.refusal(TENANT, "PATCH", f"{users.path()}/p", without)
    assert told.startswith("spec.schedulingGates: topology-webhook removes the gate")
    assert "alice may not. To stop it from waiting, delete the pod." in told
    assert users.refusal(TENANT, "PATCH", f"{users.path()}/p", {"spec": {"schedulingGates": [GATE]}}) == ""
    assert users.refusal(users.service, "PATCH", f"{users.path()}/p", without) == ""
    assert users.refusal("carol", "PATCH", f"{users.path()}/p", without, group=BREAK_GLASS) == ""


def test_trusted_groups_change_the_text_for_people_and_nothing_else_of_ours(users: Users) -> None:
    users.plane.api.create(users.path(), pod(schedulingGates=[GATE]))
    write = partial(users.refusal, "carol", group=BREAK_GLASS)
    for name in sorted(OUTPUTS):
        for field in ("annotations", "labels"):
            change = {"metadata": {field: {name: "x"}}}
            refusal = write("PATCH", f"{users.path()}/p", change)
            assert bool(refusal) == ((name, field) != (PLACEMENT, "annotations")), (name, field)
            review = _review("UPDATE", carrying(field, name), pod(), group=BREAK_GLASS)
            judged = forgery(review, Rules(trusted_groups=frozenset({BREAK_GLASS})))
            assert bool(refusal) == (judged is not None), (name, field)
    assert write("POST", users.path(), carrying("annotations", NUMA_ALLOCATION))


def test_by_default_cluster_administrators_may_remove_the_gate(rendered: Rendered) -> None:
    (policy, _) = rendered.of("ValidatingAdmissionPolicy")
    (may,) = (each["expression"] for each in policy["spec"]["variables"] if each["name"] == "mayUngate")
    assert may.endswith('group in ["system:masters"])')


@pytest.mark.parametrize("path", ["pods/p/binding", "bindings"])
def test_a_binding_carries_what_is_ours_only_when_a_scheduler_binds(users: Users, path: str) -> None:
    users.plane.api.create(users.path(), pod())
    collection = f"/api/v1/namespaces/{users.namespace}/{path}"
    target = {"apiVersion": "v1", "kind": "Node", "name": "n0"}
    for field, name in (("annotations", RESOURCE_STATUS), ("labels", RANK)):
        body = {"metadata": {"name": "p", field: {name: "x"}}, "target": target, "kind": "Binding", "apiVersion": "v1"}
        for user in (TENANT, "admin", KUBELET):
            assert users.refusal(user, "POST", collection, body).startswith(f"metadata.{field}[{name}]: Only topology-")
        for user in (SCHEDULER, TRUSTED, users.service):
            assert users.refusal(user, "POST", collection, body) == ""
    body = {"metadata": {"name": "p", "annotations": {"team": "x"}}, "target": target}
    assert users.refusal(TENANT, "POST", collection, body) == ""


def test_a_pod_of_thousands_of_annotations_is_judged_like_any_other(users: Users) -> None:
    # A loop over the keys, which CEL's bookkeeping makes quadratic, took 12 s for these; the API server gives up at 60.
    letters = "abcdefghijklmnopqrstuvwxyz"
    many = dict.fromkeys((f"{a}{b}{c}" for a in letters for b in letters for c in letters), "")
    raw = pod("many")
    raw["metadata"]["annotations"] = many
    assert users.refusal(TENANT, "POST", users.path(), raw, dry_run=False) == ""
    assert users.refusal(KUBELET, "PATCH", f"{users.path()}/many/status", {"status": {"reason": "x"}}) == ""
    raw["metadata"]["annotations"] = {**many, NUMA_ALLOCATION: "x"}
    assert f"[{NUMA_ALLOCATION}]" in users.refusal(TENANT, "POST", users.path(), raw)
