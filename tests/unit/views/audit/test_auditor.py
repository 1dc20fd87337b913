"""The audit finds the planted faults and nothing else."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound, container, plain
from tests.unit.views.audit.faults import HALL, RACK, cluster, event, of_web, rejected
from webhook.model.names import HOSTNAME_LABEL, NUMA_ALLOCATION
from webhook.model.options import Manage
from webhook.state.rules import Rules
from webhook.views.audit.auditor import Auditor, AuditView
from webhook.views.audit.managed_pods import ManageView
from webhook.views.audit.node_findings import DisagreeingNode, LevelView, RepeatedName
from webhook.views.audit.rejections import RejectionView, Workload
from webhook.views.audit.spanning_pods import ShownBy, SpanningPodView, UnreportedNode
from webhook.views.audit.split_gangs import SplitGangView
from webhook.views.nodes import OptionSource


def audited(*objects: Mapping[str, Any], rules: Rules | None = None) -> AuditView:
    """The audit of these objects."""
    cache = cluster_cache(*(raw for raw in objects if raw["kind"] != "Event"))
    auditor = Auditor(cache, rules or Rules())
    for raw in objects:
        if raw["kind"] == "Pod":
            auditor.add_pod(raw)
        elif raw["kind"] == "Event":
            auditor.add_event(raw)
    return auditor.view()


def test_rejected_pods_are_counted_once_by_the_workload_that_makes_them() -> None:
    web = Workload("team", "Deployment", "web")
    assert audited(*cluster()).rejections == (
        RejectionView(
            web,
            3,
            {"TopologyAffinityError": 2, "UnexpectedAdmissionError": 1},
            {"n0": 2, "n1": 1},
            Manage.ALIGNED,
        ),
        RejectionView(Workload("team", "Pod", "gone-1"), 1, {"TopologyAffinityError": 1}, {"n2": 1}, None),
        RejectionView(Workload("team", "Pod", "odd"), 1, {"SMTAlignmentError": 1}, {"n0": 1}, Manage.ALIGNED),
    )


@pytest.mark.parametrize("reason", ["SMTAlignmentError", "OutOfcpu", "OutOfexample.com/gpu", "PodOSNotSupported"])
def test_a_rejection_counts_whatever_its_reason(reason: str) -> None:
    deleted = event("team", "web-5d4f9-b", "n0", "SMTAlignmentError")
    found = audited(rejected(of_web("web-5d4f9-a"), "n0", reason), deleted)
    (view,) = found.rejections
    assert (view.pods, sum(view.reasons.values()), view.reasons[reason]) == (2, 2, 2 if reason[:3] == "SMT" else 1)


def test_a_pod_over_numa_nodes_is_found_by_what_its_nodes_nrt_has_allocated() -> None:
    expected = SpanningPodView("team", "span", "n1", ShownBy.USAGE, (), (0, 1))
    assert audited(*cluster()).spanning_pods == (expected,)


def test_a_gang_over_racks_is_found_with_the_rack_that_could_have_taken_it() -> None:
    expected = SplitGangView("default", "train", 4, "network", RACK, 2, "rack-1", 4)
    assert audited(*cluster()).split_gangs == (expected,)


def test_nodes_are_found_that_placement_knows_too_little_of() -> None:
    nodes = audited(*cluster()).nodes
    assert (nodes.total, nodes.without_topology) == (5, ("n3",))
    assert nodes.policies == {"best-effort": 1, "single-numa-node": 2}
    assert nodes.disagreeing == (DisagreeingNode("n2", "single-numa-node", "best-effort"),)
    assert [one.node for one in nodes.unreadable] == ["n4"]
    assert "Strange" in nodes.unreadable[0].policy


def test_nodes_are_found_whose_exporter_shows_less_in_use_than_pods_hold() -> None:
    assert audited(*cluster()).nodes.unreported == (UnreportedNode("n4", "cpu", 8000, 0),)


def test_a_pod_that_was_just_bound_may_be_missing_and_koordlet_never_shows_pods() -> None:
    just_now = {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"{datetime.now(UTC):%FT%TZ}"}
    young = bound(name="young", node="a", cpu=8, numa=None, status={"conditions": [just_now]})
    koordlet = {"labels": {"app.kubernetes.io/managed-by": "Koordinator"}}
    old = bound(name="old", node="b", cpu=8, numa=None)
    objects = [node(name="a", cpus=32), nrt(node="a", free=(16, 16)), young]
    objects += [node(name="b", cpus=32), nrt(node="b", free=(16, 16), metadata=koordlet), old]
    assert audited(*objects).nodes.unreported == ()


def test_the_options_of_kubelets_are_found_with_what_shows_them() -> None:
    (found,) = audited(*cluster()).nodes.kubelet_options
    (view,) = found.options
    assert (found.node, view.source, view.namespaces) == ("n0", OptionSource.LEARNED, ("team",))


def test_levels_are_found_whose_label_nodes_lack_and_whose_names_are_repeated() -> None:
    assert audited(*cluster()).nodes.levels == (
        LevelView("site", HALL, ("n2", "n3", "n4"), ()),
        LevelView("site", RACK, (), (RepeatedName("rack-1", ("hall-a", "hall-b")),)),
    )


# weak (none), s (single-numa-node): only on the first is the policy of a pod not enforced.
def test_pods_are_found_whose_policy_nothing_enforces() -> None:
    view = audited(
        *(node(name="weak"), nrt(node="weak", free=(16, 16), policy="none")),
        *(node(name="s"), nrt(node="s", free=(16, 16))),
        *(bound(name="there", node="weak"), bound(name="fine", node="s"), bound(name="any", node="weak", numa=None)),
    )
    assert (view.nodes.not_enforcing, view.nodes.not_enforced_pods) == (("weak",), ("default/there",))
    assert any("settings.unenforced=Deny" in step for step in view.actions)


def test_each_value_of_manage_counts_the_pods_that_it_would_cover() -> None:
    assert audited(*cluster()).manage == (
        ManageView(Manage.ANNOTATED, 4, 1),
        ManageView(Manage.ALIGNED, 6, 2),
        ManageView(Manage.ALL, 7, 2),
    )


def test_the_label_of_a_namespace_overrides_manage_and_daemon_sets_never_count() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    namespace["metadata"]["labels"] = {"topology-webhook.dev/manage": "annotated"}  # type: ignore[index]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    daemon = bound(name="d", node="n0", metadata={"ownerReferences": [owner]})
    assert [one.pods for one in audited(namespace, *cluster(), daemon).manage] == [4, 4, 5]


def test_what_to_do_is_said_in_order() -> None:
    steps = audited(*cluster()).actions
    begins = [
        "Run an exporter of NodeResourceTopologies on 1 node: n3.",
        "Correct the unreadable NUMA policy of 1 node: n4.",
        "Make the label node.koordinator.sh/numa-topology-policy agree with the kubelet's policy on 1 node: n2.",
        "Check the exporter of NodeResourceTopologies on 1 node: n4. It shows less in use than running pods hold",
        "Label 3 nodes with example.com/hall (Topology site): n2, n3, n4.",
        "Check the values of the label example.com/rack that occur in several domains above (Topology site): rack-1",
        "State the options of the kubelets of 1 node in the annotation topology-webhook.dev/kubelet-options: n0 (full",
        "Set topologyManagerPolicy to restricted or single-numa-node in the kubelet's configuration of 1 node",
        "Set settings.manage=Aligned, or annotate the pod templates with a numaTopologyPolicy, for 2 workloads",
        "Annotate 1 gang whose pods run in several domains with kai.scheduler/topology",
        "Install topology-webhook with settings.mode=Observe",
        "Switch to settings.mode=Enforce.",
    ]
    assert len(steps) == len(begins)
    for step, begin in zip(steps, begins, strict=True):
        assert step.startswith(begin)


def test_a_cluster_without_faults_has_nothing_to_do() -> None:
    view = audited(node(name="n0"), nrt(node="n0", free=(15, 16)), bound(name="p", node="n0", cpu=1))
    assert (view.rejections, view.spanning_pods, view.split_gangs, view.actions) == ((), (), (), ())


def test_a_workload_that_is_annotated_already_needs_only_the_service() -> None:
    raw = rejected(of_web("web-5d4f9-a"), "n0")
    raw["metadata"]["annotations"] = {"scheduling.koordinator.sh/numa-topology-spec": "{}"}
    view = audited(node(name="n0"), nrt(node="n0", free=(16, 16)), raw)
    assert view.rejections[0].manage is Manage.ANNOTATED
    assert [step.partition(":")[0] for step in view.actions] == [
        "Install topology-webhook with settings.mode=Observe",
        "Switch to settings.mode=Enforce.",
    ]


def test_pods_that_only_manage_all_covers_need_an_annotation_and_those_of_others_no_step() -> None:
    shared = rejected(plain(name="shared", containers=[container(requests={"cpu": "1"})]), "n0")
    other = rejected(plain(name="other", schedulerName="volcano"), "n0")
    view = audited(node(name="n0"), nrt(node="n0", free=(16, 16)), shared, other)
    assert {one.workload.name: one.manage for one in view.rejections} == {"shared": Manage.ALL, "other": None}
    assert view.actions[0] == (
        "Annotate the pod templates of 1 workload whose pods kubelets reject, and which settings.manage=Aligned does "
        "not cover: Pod default/shared."
    )
    assert len(view.actions) == 3


def on_n0(*pods: Mapping[str, Any], free: tuple[int, int], **how: Any) -> tuple[SpanningPodView, ...]:
    """The spanning pods of a node of two NUMA nodes with 16 CPUs each."""
    return audited(node(name="n0"), nrt(node="n0", free=free, **how), *pods).spanning_pods


def test_usage_proves_nothing_if_the_nrt_may_not_report_every_pod() -> None:
    wide, other = (bound(name=name, node="n0", cpu=12, numa=None) for name in ("wide", "other"))
    assert on_n0(wide, other, free=(6, 6)) == ()
    assert [one.name for one in on_n0(wide, other, free=(6, 2))] == []  # one of them may have 12 of the 14
    assert [one.name for one in on_n0(wide, free=(10, 10))] == ["wide"]


def test_a_kubelet_without_exclusive_cpus_proves_nothing() -> None:
    assert on_n0(bound(name="wide", node="n0", cpu=12, numa=None), free=(16, 16)) == ()
    assert on_n0(bound(name="shared", node="n0", cpu="12500m", numa=None), free=(8, 8)) == ()


def test_a_pod_that_no_numa_node_could_hold_is_no_finding() -> None:
    assert on_n0(bound(name="wide", node="n0", cpu=20, numa=None), free=(6, 6)) == ()


def test_an_allocation_over_numa_nodes_is_a_finding() -> None:
    numa_nodes = [{"node": numa_id, "resources": {"cpu": "4"}} for numa_id in (0, 1)]
    allocation = json.dumps({"node": "n0", "numaNodeResources": numa_nodes})
    pod = bound(name="p", node="n0", cpu=8, numa=None, annotations={NUMA_ALLOCATION: allocation})
    expected = SpanningPodView("default", "p", "n0", ShownBy.ALLOCATION, (0, 1), (0, 1))
    assert on_n0(pod, free=(12, 12), policy="best-effort") == (expected,)


def gang(*nodes: str, cpu: int = 8, **how: Any) -> list[dict[str, Any]]:
    return [bound(name=f"g-{number}", node=name, cpu=cpu, group="g", **how) for number, name in enumerate(nodes)]


def racks(*others: Mapping[str, Any]) -> tuple[SplitGangView, ...]:
    """The split gangs on n0 and n1 in rack-1, and n2 in rack-2; 32 CPUs each."""
    placed = {"n0": "rack-1", "n1": "rack-1", "n2": "rack-2"}
    labelled = [node(name=name, cpus=32, labels={RACK: rack}) for name, rack in placed.items()]
    topologies = [raw for raw in cluster() if raw["kind"] == "Topology"]
    return audited(*topologies, *labelled, *others).split_gangs


def test_a_rack_takes_what_is_free_there_and_what_the_gang_itself_has_there() -> None:
    busy = bound(name="busy", node="n1", cpu=30, numa=None)
    (found,) = racks(*gang("n0", "n0", "n2", "n2", "n2", "n2"), busy)
    assert (found.pods, found.domains, found.best, found.best_pods) == (6, 2, "rack-1", 4)


def test_the_pods_of_other_gangs_take_their_room() -> None:
    other = [bound(name=f"o-{number}", node="n2", cpu=8, group="o") for number in range(2)]
    (found,) = racks(*gang("n1", "n2", cpu=16), *other, bound(name="busy", node="n0", cpu=32, numa=None))
    assert (found.best, found.best_pods) == ("rack-1", 2)


def test_nodes_that_take_no_pod_of_the_gang_do_not_count() -> None:
    cordoned = node(name="n3", cpus=64, labels={RACK: "rack-3"}, unschedulable=True)
    (found,) = racks(*gang("n0", "n2", nodeSelector={HOSTNAME_LABEL: "n2"}), cordoned)
    assert (found.best, found.best_pods) == ("rack-2", 2)


def test_a_gang_in_one_rack_is_no_finding() -> None:
    assert racks(*gang("n0", "n1")) == ()


def test_pods_of_other_schedulers_groups_and_of_indexed_jobs_are_gangs_and_those_of_replica_sets_are_not() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    index = "batch.kubernetes.io/job-completion-index"
    made: dict[str, dict[str, Any]] = {
        "x": {"labels": {"scheduling.x-k8s.io/pod-group": "x"}},
        "s": {"labels": {"jobset.sigs.k8s.io/jobset-name": "s"}},
        "l/2": {"labels": {"leaderworkerset.sigs.k8s.io/name": "l", "leaderworkerset.sigs.k8s.io/group-index": "2"}},
        "v": {"annotations": {"scheduling.k8s.io/group-name": "v"}},
        "j": {"annotations": {index: "0"}, "ownerReferences": [job]},
        "": {"ownerReferences": [{**job, "kind": "ReplicaSet"}]},
    }
    pods = []
    for number, metadata in enumerate(made.values()):
        for each in ("n0", "n2"):
            name = f"p{number}-{each}"
            pods.append(bound(name=name, node=each, cpu=1, numa=None, metadata=metadata))
    assert [one.name for one in racks(*pods)] == sorted(name for name in made if name)


def test_odd_events_are_ignored() -> None:
    odd = [
        event("team", "p", "n0", involvedObject=None),
        event("team", "p", "n0", involvedObject="p"),
        event("team", "p", "n0") | {"reason": ["TopologyAffinityError"]},
        event("team", "p", "n0", source="kubelet", involvedObject={"kind": "Node", "name": "n0"}),
    ]
    assert audited(*odd).rejections == ()
    newer = event("team", "p", "", involvedObject=None, regarding={"kind": "Pod", "name": "p", "namespace": "team"})
    (found,) = audited(newer | {"reportingInstance": "n7"}).rejections
    assert (found.workload, found.nodes) == (Workload("team", "Pod", "p"), {"n7": 1})


def test_a_deployments_pod_without_the_hash_label_is_its_replica_sets() -> None:
    raw = rejected(of_web("web-5d4f9-a"), "n0")
    raw["metadata"]["labels"] = {}
    assert audited(raw).rejections[0].workload == Workload("team", "ReplicaSet", "web-5d4f9")
    assert audited(rejected(plain(name="p"), "n0")).rejections[0].workload == Workload("default", "Pod", "p")
