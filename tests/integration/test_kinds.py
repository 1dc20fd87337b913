"""Every kind of workload on the real control plane: annotated on top alone, its pods are a group and find one rack.

    rack-0 ── n-1 n-2 n-3      rack-1 ── n-1 n-2 n-3      [one pod a node; a group is of four]

The group waits, as no rack has room for it; a node more in rack-0, and it goes there.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.controllers import Controllers, collection
from tests.cluster.gated import SINGLE, Pods, pod
from tests.cluster.kinds import KINDS, NAME, APIKind, at, served
from tests.cluster.lws_webhook import pod_webhook_of_lws
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, Machine
from tests.cluster.racked import RACKS, rack_of, topology_of_racks
from tests.cluster.webhook_process import local_webhook
from tests.integration.pod_groups import groups as pod_groups
from tests.integration.pod_groups import says

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.cluster.control_plane import ControlPlane

INHERIT = "topology-webhook.dev/inherit"
RANK = "topology-webhook.dev/rank"
GROUP = "pod-group-name"
TEMPLATE = {"metadata": {"labels": {"app": "w"}}, "spec": pod("", cpu=16)["spec"]}


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[None]:
    with (
        served(control_plane),
        pod_webhook_of_lws(control_plane),
        topology_of_racks(control_plane),
        local_webhook(control_plane),  # knows the kinds from its start
    ):
        yield


def machine(rack: int, number: int) -> Machine:
    labels = {RACK_LABEL: f"rack-{rack}", ZONE_LABEL: "zone-0"}
    return Machine(f"n-{rack}-{number}", free=(16,), labels=labels)


def by_group(pods: Pods) -> dict[str, list[dict[str, Any]]]:
    """Gang -> its pods, in order of rank. Key "": pods in no gang. A waiting pod has no rank yet."""
    found: dict[str, list[dict[str, Any]]] = {}
    for raw in sorted(pods.all().values(), key=lambda raw: int(raw["metadata"]["labels"].get(RANK, 0))):
        found.setdefault(raw["metadata"].get("annotations", {}).get(GROUP, ""), []).append(raw)
    return found


def uids(pods: Pods) -> set[str]:
    return {raw["metadata"]["uid"] for raw in pods.all().values()}


def is_in_one_rack(pods: Pods, members: list[dict[str, Any]], patterns: Sequence[str]) -> None:
    names = [raw["metadata"]["name"] for raw in members]
    assert len(names) == len(patterns)
    assert all(map(fnmatchcase, names, patterns)), names
    (rack,) = {rack_of(pods, name) for name in names}
    for rank, raw in enumerate(members):
        labels = raw["metadata"]["labels"]
        assert (labels[RANK], labels["topology-webhook.dev/domain-rack"]) == (str(rank), rack)


def has_its_pod_group(
    pods: Pods, name: str, top: dict[str, Any], spec: dict[str, Any], parts: Mapping[str, int]
) -> None:
    found = pod_groups(pods)[name]
    owner = {key: top["metadata"][key] for key in ("name", "uid")}
    assert found["metadata"]["ownerReferences"] == [{"apiVersion": top["apiVersion"], "kind": top["kind"], **owner}]
    constraint = {"topology": "racks", "requiredTopologyLevel": RACK_LABEL}
    sub_groups = found["spec"].pop("subGroups", ())
    assert found["spec"] == {**spec, "topologyConstraint": constraint}
    assert {each["name"]: each["minMember"] for each in sub_groups} == parts


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_a_workload_asks_for_itself_places_the_pods_that_its_controller_makes(
    kind: APIKind,
    control_plane: ControlPlane,
    pods: Pods,
    known: Callable[..., None],
    create_machines: Callable[..., None],
) -> None:
    size = len(next(iter(kind.groups.values())))
    racks = range(len(kind.groups) + 1)
    fleet = [machine(rack, number) for rack in racks for number in range(1, size)]
    known(*fleet)
    path = collection(pods.namespace, kind.api_version, kind.kind)
    workload = control_plane.api.create(path, kind.workload({**RACKS, **SINGLE}, TEMPLATE))
    for each in kind.templates:
        assert at(workload, each)["metadata"]["annotations"] == {INHERIT: "true"}
    controllers = Controllers(control_plane, pods.namespace)
    top = kind.play(controllers, workload)
    name = f"pg-{top['metadata']['name']}-{top['metadata']['uid']}"
    names = {f"{name}{ending}": patterns for ending, patterns in kind.groups.items()}
    count = size * len(names)

    control_plane.wait_for("its pods", lambda: len(pods.gated()) == count)
    control_plane.wait_for("why it waits", lambda: all(says(pods, group, "waiting: gang") for group in names))
    control_plane.wait_for("its pods to say so", lambda: by_group(pods).keys() == names.keys())
    assert pods.bound() == {}

    create_machines(*[machine(rack, 0) for rack in range(len(names))])
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == count)
    for group, patterns in names.items():
        is_in_one_rack(pods, by_group(pods)[group], patterns)
        control_plane.wait_for("the group to say so", partial(says, pods, group, f": {size} pod"))
        has_its_pod_group(pods, group, top, {"minMember": size}, kind.parts)

    group, members = next(iter(by_group(pods).items()))
    lost = members[-1]["metadata"]
    if lost["ownerReferences"][0]["kind"] == "Job":
        return  # its controller takes ten seconds for another one: see test_gate_sizes
    rack = rack_of(pods, lost["name"])
    controllers.replace(lost["name"])
    control_plane.wait_for("another", lambda: len(pods.bound()) == count and lost["uid"] not in uids(pods))
    again = by_group(pods)[group][-1]["metadata"]
    assert again["labels"][RANK] == str(size - 1)
    assert rack_of(pods, again["name"]) == rack


PARTED = [kind for kind in KINDS if kind.parts and kind.kind != "LeaderWorkerSet"]


@pytest.mark.parametrize("kind", PARTED, ids=str)
def test_of_a_workload_where_one_template_asks_for_a_rack_its_pods_wait_for_no_others(
    kind: APIKind, control_plane: ControlPlane, pods: Pods, known: Callable[..., None]
) -> None:
    fleet = [machine(rack, number) for rack in range(2) for number in range(4)]
    known(*fleet)
    document = kind.workload({}, TEMPLATE)
    *others, asking = (at(document, each) for each in kind.templates)
    asking["metadata"]["annotations"] = {**RACKS, **SINGLE}
    for other in others:  # the scheduler may put them where a member is about to be bound
        other["spec"]["containers"] = [{"name": "main", "image": "none"}]
    workload = control_plane.api.create(collection(pods.namespace, kind.api_version, kind.kind), document)
    top = kind.play(Controllers(control_plane, pods.namespace), workload)
    count = sum(map(len, kind.groups.values()))
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == count)
    members = by_group(pods)
    del members[""]
    *_, (_, size) = kind.parts.items()
    assert [len(each) for each in members.values()] == [size] * len(kind.groups)
    for group, raws in members.items():
        assert [raw["metadata"]["labels"][RANK] for raw in raws] == [str(rank) for rank in range(size)]
        assert len({rack_of(pods, raw["metadata"]["name"]) for raw in raws}) == 1
        control_plane.wait_for("the group to say so", partial(says, pods, group, f": {size} pod"))
        has_its_pod_group(pods, group, top, {"minMember": size}, {})


def test_a_leader_is_in_the_group_of_its_workers_whose_template_alone_asks(
    control_plane: ControlPlane, pods: Pods, known: Callable[..., None]
) -> None:
    known(*[machine(rack, number) for rack in range(2) for number in range(3)])
    lws = next(kind for kind in KINDS if kind.kind == "LeaderWorkerSet")
    document = lws.workload({}, TEMPLATE)
    at(document, lws.templates[1])["metadata"]["annotations"] = {**RACKS, **SINGLE}
    workload = control_plane.api.create(collection(pods.namespace, lws.api_version, lws.kind), document)
    top = lws.play(Controllers(control_plane, pods.namespace), workload)
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 6)
    name = f"pg-{top['metadata']['name']}-{top['metadata']['uid']}"
    for ending, patterns in lws.groups.items():
        is_in_one_rack(pods, by_group(pods)[f"{name}{ending}"], patterns)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_fault_is_told_with_its_place_on_each_kind_and_in_each_of_its_templates(
    kind: APIKind, control_plane: ControlPlane, pods: Pods
) -> None:
    path = f"{collection(pods.namespace, kind.api_version, kind.kind)}?dryRun=All"
    key = "kai.scheduler/topology-required-placement"
    places = {"": kind.workload({**RACKS, key: "rakc"}, TEMPLATE)}
    for each in kind.templates + kind.between:
        places[f"{each}."] = document = kind.workload({}, TEMPLATE)
        at(document, each).setdefault("metadata", {})["annotations"] = {**RACKS, key: "rakc"}
    for place, document in places.items():
        with pytest.raises(ApiError) as refused:
            control_plane.api.create(path, document)
        assert str(refused.value).endswith(
            f'{place}metadata.annotations[{key}]: "rakc" is no level of topology racks. Its levels are, from coarse to '
            f"fine: {ZONE_LABEL}, {RACK_LABEL}. Did you mean rack?"
        )


def test_what_stands_on_a_train_job_holds_for_the_pods_of_its_job_set(
    control_plane: ControlPlane, pods: Pods, known: Callable[..., None]
) -> None:
    job_set = next(kind for kind in KINDS if kind.kind == "JobSet")
    train_job = replace(job_set, api_version="trainer.kubeflow.org/v1alpha1", kind="TrainJob")
    fleet = [machine(rack, number) for rack in range(2) for number in range(5)]
    known(*fleet)
    # its controller makes the JobSet from a runtime, whose templates nobody but their author marks
    marked = {**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "annotations": {INHERIT: "true"}}}
    with served(control_plane, [train_job]):
        path = collection(pods.namespace, train_job.api_version, train_job.kind)
        above = control_plane.api.create(path, {**train_job.workload({**RACKS, **SINGLE}, TEMPLATE), "spec": {}})
        controllers = Controllers(control_plane, pods.namespace)
        made = controllers.create(above, job_set.api_version, job_set.kind, "w", job_set.spec(marked))
        job_set.play(controllers, made)
        control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 5)
        ((group, members),) = by_group(pods).items()
        assert group == f"pg-w-{made['metadata']['uid']}"
        is_in_one_rack(pods, members, job_set.groups[""])


def test_what_an_app_wrapper_contains_is_marked_and_checked_when_its_operator_creates_it(
    control_plane: ControlPlane, pods: Pods, known: Callable[..., None]
) -> None:
    """Its controller is of no kind that is read, so that the API server asks about it as about a user's own."""
    job = next(kind for kind in KINDS if kind.api_version == "batch/v1")
    wrapper = replace(job, api_version="workload.codeflare.dev/v1beta2", kind="AppWrapper")
    known(*[machine(rack, number) for rack in range(2) for number in range(4)])
    with served(control_plane, [wrapper]):
        path = collection(pods.namespace, wrapper.api_version, wrapper.kind)
        above = control_plane.api.create(path, {**wrapper.workload({}, TEMPLATE), "spec": {}})
        controllers, spec = Controllers(control_plane, pods.namespace), job.spec(TEMPLATE)
        wrong = {**RACKS, "kai.scheduler/topology-required-placement": "rakc"}
        with pytest.raises(ApiError, match="Did you mean rack"):
            controllers.create(above, job.api_version, job.kind, "x", spec, annotations=wrong)
        made = controllers.create(above, job.api_version, job.kind, "w", spec, annotations={**RACKS, **SINGLE})
        assert made["spec"]["template"]["metadata"]["annotations"] == {INHERIT: "true"}
        control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 4)
        ((group, members),) = by_group(pods).items()
        assert group == f"pg-w-{made['metadata']['uid']}"
        is_in_one_rack(pods, members, job.groups[""])


def test_members_that_exclude_each_other_wait_for_a_rack_with_a_node_for_each(
    control_plane: ControlPlane,
    pods: Pods,
    known: Callable[..., None],
    create_machines: Callable[..., None],
) -> None:
    """Each node has room for all four: the scheduler would bind one of them and leave the others pending."""
    job = next(kind for kind in KINDS if kind.api_version == "batch/v1")
    on_host = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": "kubernetes.io/hostname"}
    anti_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [on_host]}
    spec = {**pod("", cpu=2)["spec"], "affinity": {"podAntiAffinity": anti_affinity}}
    known(*[machine(rack, number) for rack in range(2) for number in range(1, 4)])
    path = collection(pods.namespace, job.api_version, job.kind)
    made = control_plane.api.create(path, job.workload(RACKS, {**TEMPLATE, "spec": spec}))
    group = f"pg-{NAME}-{made['metadata']['uid']}"
    control_plane.wait_for("why it waits", lambda: says(pods, group, "nodes for members that exclude each other"))
    assert pods.bound() == {}
    create_machines(machine(0, 0))
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 4)
    assert set(pods.bound().values()) == {f"n-0-{number}" for number in range(4)}
