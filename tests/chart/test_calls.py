"""For which objects the API server calls the webhooks: rules, selectors and match conditions."""

import copy
import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import product
from typing import Any

import pytest
import yaml

from tests.chart.helm import CHART, Helm
from tests.chart.release import FULL_NAME, InstalledRelease, other_namespace
from tests.cluster.api import ApiError
from tests.cluster.control_plane import ControlPlane
from webhook.admission.pod.validate import validate_pod
from webhook.admission.response import Denied
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.model import names
from webhook.model.names import (
    MANAGE_LABEL,
    MANAGED_FIELDS,
    NUMA_ALLOCATION,
    NUMA_TOPOLOGY_SPEC,
    PLACEMENT,
    PLACEMENT_GATE,
    RANK,
    RESOURCE_STATUS,
    SCHEDULING_GROUP,
    STRATEGY,
)
from webhook.model.options import BY_LABEL, Manage
from webhook.state.rules import Rules
from webhook.state.unmanaged import is_annotated, why_not_mutated

# Nobody listens there: a call fails at once, so that one sees by Fail which pods are asked about.
NOBODY = {"failurePolicy": "Fail", "url": "https://127.0.0.1:1"}


def pod(**differences: Any) -> dict[str, Any]:
    metadata = {"generateName": "asked-", **differences.pop("metadata", {})}
    spec = {"containers": [{"name": "main", "image": "none"}], **differences}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def annotated(**differences: Any) -> dict[str, Any]:
    """A pod that asks for something."""
    raw = pod(**differences)
    raw["metadata"].setdefault("annotations", {})[NUMA_TOPOLOGY_SPEC] = "{}"
    return raw


def asked(plane: ControlPlane, namespace: str, body: Mapping[str, Any]) -> str:
    """The webhook that is called for the creation of a pod: "mutate", "validate", or "" for none. The first counts."""
    try:
        plane.api.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    except ApiError as error:
        if "failed calling webhook" not in error.message:
            raise
        return error.message.partition('webhook "')[2].partition(".")[0]
    return ""


def test_the_api_server_asks_about_those_pods_only_whose_place_is_open(
    control_plane: ControlPlane, release: InstalledRelease
) -> None:
    owner = {"apiVersion": "apps/v1", "name": "owner", "uid": "1", "controller": True}

    def owned_by(kind: str) -> dict[str, Any]:
        return annotated(metadata={"ownerReferences": [{**owner, "kind": kind}]})

    mirror = annotated(nodeName="n0")
    mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "x"
    with other_namespace(control_plane, f"{release.namespace}-pods") as pods:
        release.upgrade({"webhook": NOBODY})
        control_plane.wait_for("the configuration to count", lambda: asked(control_plane, pods, annotated()))

        assert asked(control_plane, pods, annotated()) == "mutate"
        assert asked(control_plane, pods, pod()) == ""
        assert asked(control_plane, pods, owned_by("ReplicaSet")) == "mutate"
        assert asked(control_plane, pods, owned_by("DaemonSet")) == ""
        # A pod that names its node is not mutated, but what its annotations say is still checked.
        assert asked(control_plane, pods, annotated(nodeName="n0")) == "mutate"
        assert asked(control_plane, pods, mirror) == ""
        # The release's own pods must come up when no replica is there to allow it.
        assert asked(control_plane, release.namespace, annotated()) == ""
        assert asked(control_plane, "kube-system", annotated()) == ""


AMOUNTS = {"cpu": "2", "memory": "1Gi"}
GPU = "example.com/gpu"
OF_A_DAEMON_SET = {
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}]
}


def guaranteed(**differences: Any) -> dict[str, Any]:
    """A pod that asks for nothing, of which a kubelet may align something. Its requests follow from its limits."""
    raw = pod(**differences)
    raw["spec"]["containers"][0]["resources"] = {"limits": AMOUNTS}
    return raw


def of_resources(resources: Mapping[str, Any], **differences: Any) -> dict[str, Any]:
    raw = pod(**differences)
    raw["spec"]["containers"][0]["resources"] = dict(resources)
    return raw


# What asks for nothing, by the least mode that covers it.
UNASKING: dict[str, tuple[dict[str, Any], Manage | None]] = {
    "Guaranteed": (guaranteed(), Manage.ALIGNED),
    "Guaranteed, written in two ways": (
        of_resources({"requests": {"cpu": "2", "memory": "1073741824"}, "limits": AMOUNTS}),
        Manage.ALIGNED,
    ),
    "with a device": (of_resources({"requests": {"cpu": "1"}, "limits": {GPU: "1"}}), Manage.ALIGNED),
    "with a device in an init container": (
        pod(initContainers=[{"name": "i", "image": "none", "resources": {"limits": {GPU: "1"}}}]),
        Manage.ALIGNED,
    ),
    # Larger than what is placed: the service says so.
    "of 65 containers": (
        pod(containers=[{"name": f"c{number}", "image": "none"} for number in range(65)]),
        Manage.ALIGNED,
    ),
    "of 17 resources": (
        of_resources(
            {
                "requests": {"cpu": "1"},
                "limits": {"cpu": "2", **{f"hugepages-{2**power}Mi": "0" for power in range(16)}},
            }
        ),
        Manage.ALIGNED,
    ),
    "Burstable": (of_resources({"requests": AMOUNTS}), Manage.ALL),
    "Burstable by its limits": (
        of_resources({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": AMOUNTS}),
        Manage.ALL,
    ),
    "Burstable by an init container": (
        {**guaranteed(), "spec": {**guaranteed()["spec"], "initContainers": [{"name": "i", "image": "none"}]}},
        Manage.ALL,
    ),
    "BestEffort": (pod(), Manage.ALL),
    "another scheduler's": (guaranteed(schedulerName="koord-scheduler"), None),
    "bound": (guaranteed(nodeName="n0"), None),
    "a DaemonSet's": (guaranteed(metadata=OF_A_DAEMON_SET), None),
    "a mirror": (guaranteed(nodeName="n0", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}), None),
}


def test_pods_that_ask_for_nothing_cost_a_call_only_where_the_mode_covers_them(
    control_plane: ControlPlane, release: InstalledRelease
) -> None:
    labels = [None, *BY_LABEL, "unknown"]
    first_of = {
        mode: next(raw for raw, least in UNASKING.values() if least is mode) for mode in Manage if mode != "Annotated"
    }
    with ExitStack() as stack:
        pods = {}
        for label in labels:
            name = f"{release.namespace}-{label or 'unlabelled'}"
            pods[label] = stack.enter_context(other_namespace(control_plane, name))
            if label:
                control_plane.kubectl("label", "namespace", name, f"{MANAGE_LABEL}={label}")
        for setting in Manage:
            release.upgrade({"settings": {"manage": setting.value}, "webhook": NOBODY})
            telling = first_of.get(setting, annotated())
            control_plane.wait_for(f"{setting} to count", lambda: asked(control_plane, pods[None], telling))  # noqa: B023
            control_plane.wait_for("the labels to count", lambda: asked(control_plane, pods["unknown"], pod()))
            for label, (words, (raw, least)) in product(labels, UNASKING.items()):
                # Of an unknown label the service warns.
                mode = setting if label is None else BY_LABEL.get(label, Manage.ALL)
                expected = least is not None and list(Manage).index(mode) >= list(Manage).index(least)
                assert (asked(control_plane, pods[label], raw) == "mutate") == expected, (setting, label, words)
                assert asked(control_plane, pods[label], annotated()) == "mutate"
            for excluded in ("kube-system", release.namespace):
                assert asked(control_plane, excluded, guaranteed()) == ""


CIRCUMSTANCES: dict[str, dict[str, Any]] = {
    "ours": {},
    "bound": {"nodeName": "n0"},
    "another scheduler's": {"schedulerName": "koord-scheduler"},
    "a DaemonSet's": {
        "metadata": {
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "owner", "uid": "1", "controller": True}
            ]
        }
    },
    "static": {"metadata": {"annotations": {"kubernetes.io/config.source": "file"}}},
}
ASKS: list[dict[str, str]] = [{}, {NUMA_TOPOLOGY_SPEC: "{}"}, {"scheduling.koordinator.sh/other": "x"}]
CARRIES: list[tuple[str, ...]] = [
    (),
    (PLACEMENT,),
    (PLACEMENT, MANAGED_FIELDS),
    (MANAGED_FIELDS,),
    (PLACEMENT, NUMA_ALLOCATION),
    (RANK,),
]


def test_each_created_pod_costs_one_call_or_none_and_no_forged_one_gets_by(
    control_plane: ControlPlane, release: InstalledRelease
) -> None:
    with other_namespace(control_plane, f"{release.namespace}-pods") as pods:
        # The API server's own policy would refuse some before a webhook is asked.
        release.upgrade({"webhook": NOBODY, "admissionPolicy": {"enabled": False}})
        control_plane.wait_for("the configuration to count", lambda: asked(control_plane, pods, annotated()))
        asked_about = []
        for (words, circumstance), asks, carries in product(CIRCUMSTANCES.items(), ASKS, CARRIES):
            for where in ("annotations", "labels"):
                raw = pod(**copy.deepcopy(circumstance))
                raw["metadata"].setdefault("annotations", {}).update(asks)
                raw["metadata"].setdefault(where, {}).update(dict.fromkeys(carries, "x"))
                is_asked = asked(control_plane, pods, raw) == "mutate"
                is_ours = why_not_mutated(raw, Rules()) is None
                is_forged = isinstance(validate_pod(_creation(raw), {}, Rules()), Denied)
                assert is_asked >= (is_forged or is_ours), (words, raw)
                assert not (is_asked and not asks and not carries), (words, raw)
                asked_about += [raw] * is_asked

        # As if the mutating webhook had answered: nobody else is asked about those.
        mutating_is_open = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
        control_plane.kubectl(
            *("patch", "mutatingwebhookconfiguration", FULL_NAME, "--type=json", "--patch"),
            json.dumps(mutating_is_open),
        )
        control_plane.wait_for("it to count", lambda: not asked(control_plane, pods, annotated()))
        for raw in asked_about:
            assert asked(control_plane, pods, raw) == ""


def _creation(raw: Mapping[str, Any]) -> AdmissionRequest:
    request = {"uid": "1", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": raw, "userInfo": {"username": "u"}}
    return AdmissionRequest.from_object(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )


def test_the_chart_knows_every_annotation_by_which_a_pod_asks_for_something(helm: Helm) -> None:
    (expression,) = (
        each["expression"]
        for each in helm.template().mutating["matchConditions"]
        if each["name"] == "asks-for-something-or-carries-ours"
    )
    asks = expression.partition("(!has(")[0]
    known = {name for name in vars(names).values() if isinstance(name, str)}
    # The mark of a scheduling group counts only beside the pod's own field, and that is what the expression reads.
    assert "has(object.spec.schedulingGroup)" in asks
    told = {name for name in known - {SCHEDULING_GROUP} if is_annotated(_with(name))}
    # A strategy alone asks for nothing. Its user is warned.
    assert known & set(re.findall(r"'([^']+)'", asks)) == {*told, STRATEGY}


def _with(annotation: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {annotation: "true"}}}


def test_an_update_is_asked_about_when_it_changes_metadata_or_gates_of_a_pod_that_is_of_our_affair(
    control_plane: ControlPlane, release: InstalledRelease
) -> None:
    gates = {"schedulingGates": [{"name": "example.com/a"}, {"name": PLACEMENT_GATE}]}
    changes: list[dict[str, Any]] = [
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"spec": {"schedulingGates": gates["schedulingGates"][:1]}},
    ]
    forgeries: list[dict[str, Any]] = [
        {"metadata": {"annotations": {NUMA_TOPOLOGY_SPEC: "{}"}}},
        {"metadata": {"annotations": {RESOURCE_STATUS: "{}"}}},
        {"metadata": {"labels": {RANK: "1"}}},
    ]

    def is_refused(pod_path: str, change: dict[str, Any]) -> bool:
        try:
            control_plane.api.patch(f"{pod_path}?dryRun=All", change)
        except ApiError:
            return True
        return False

    with other_namespace(control_plane, f"{release.namespace}-pods") as pods:
        path = f"/api/v1/namespaces/{pods}/pods"
        for name, raw in {"asks": annotated(**gates), "gated": pod(**gates), "plain": pod()}.items():
            raw["metadata"]["name"] = name
            control_plane.api.create(path, raw)
        release.upgrade({"webhook": NOBODY, "admissionPolicy": {"enabled": False}})
        control_plane.wait_for("the validating webhook to be asked", lambda: is_refused(f"{path}/asks", changes[0]))

        for finalizers in (["example.com/a"], []):
            control_plane.api.patch(f"{path}/asks", {"metadata": {"finalizers": finalizers}})
        control_plane.api.patch(f"{path}/plain", changes[0])
        control_plane.api.patch(f"{path}/plain", changes[1])
        for name, change in [*product(["asks", "gated"], changes), *product(["plain"], forgeries)]:
            with pytest.raises(ApiError, match=r"validate\.pods\.topology-webhook\.dev"):
                control_plane.api.patch(f"{path}/{name}", change)


def test_the_readmes_ways_to_be_asked_less_work(control_plane: ControlPlane, release: InstalledRelease) -> None:
    readme = (CHART / "README.md").read_text().partition("### Only some pods")[2]
    by_label, by_namespace = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)[:2])
    labelled = annotated(metadata={"labels": {"tier": "batch"}})
    with other_namespace(control_plane, f"{release.namespace}-pods") as pods:
        release.upgrade({"webhook": {**by_label["webhook"], **NOBODY}})
        control_plane.wait_for("the configuration to count", lambda: asked(control_plane, pods, labelled))
        assert asked(control_plane, pods, annotated()) == ""

        release.upgrade({"webhook": {**by_namespace["webhook"], **NOBODY}})
        control_plane.wait_for("the new one to count", lambda: not asked(control_plane, pods, labelled))
        control_plane.kubectl("label", "namespace", pods, "topology-webhook.dev/enabled=true")
        control_plane.wait_for("the label to count", lambda: asked(control_plane, pods, annotated()))


def test_nobody_answers_and_pods_are_admitted_as_they_came(
    control_plane: ControlPlane, release: InstalledRelease
) -> None:
    release.upgrade({"webhook": {"url": NOBODY["url"]}})
    assert asked(control_plane, "default", pod()) == ""
