"""Which pods are managed, and where their policy comes from: pod, owner, namespace or setting."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from tests.builders.reviews import review, warnings
from tests.handlers import mutated as answered
from webhook.admission.pod.mutation import mutate_pod
from webhook.admission.response import Denied, Patched
from webhook.formats.koordinator.intent import NO_SPEC, NUMASpec, parse_numa_intent
from webhook.formats.kubernetes.namespace import Namespace
from webhook.model.names import (
    INHERIT,
    MANAGE_LABEL,
    MANAGED,
    NUMA_DEFAULTS,
    NUMA_TOPOLOGY_SPEC,
    PLACEMENT,
    PLACEMENT_GATE,
)
from webhook.model.options import BY_LABEL, Manage
from webhook.model.policy import Exclusive, NUMAPolicy
from webhook.placing.pod.decision import PodDecision, Verdict
from webhook.state.rules import Rules

# a [7 7]  b [2 9]  single-numa-node              [free cpus per NUMA node]
CLUSTER = cluster_snapshot(node(name="a"), node(name="b"), nrt(node="a", free=[7, 7]), nrt(node="b", free=[2, 9]))


WITHOUT_POLICY = cluster_snapshot(node(name="a"), nrt(node="a", free=[7, 7], policy="none"))


OF_EACH_POLICY = cluster_snapshot(
    *(node(name=policy.name) for policy in NUMAPolicy),
    *(nrt(node=policy.name, free=[8, 8], policy=policy.kubelet) for policy in NUMAPolicy),
)


# Policies by their first letter.
POLICIES = {
    "": NUMAPolicy.NONE,
    "B": NUMAPolicy.BEST_EFFORT,
    "R": NUMAPolicy.RESTRICTED,
    "S": NUMAPolicy.SINGLE_NUMA_NODE,
}


def plain(cpu: str = "8", **more: Any) -> dict[str, Any]:
    """A Guaranteed pod that asks for nothing."""
    raw = pod(cpu=cpu, **more)
    del raw["metadata"]["annotations"]
    return raw


def burstable() -> dict[str, Any]:
    raw = plain()
    del raw["spec"]["containers"][0]["resources"]["limits"]
    return raw


def mutation_of(
    raw: Mapping[str, Any], rules: Rules, *, cluster: Any = CLUSTER, labels: Any = None, annotations: Any = None
) -> PodDecision:
    """The mutation of a pod in a namespace with these labels and annotations."""
    metadata = {"name": "default", "labels": labels, "annotations": annotations}
    return mutate_pod(
        raw, replace(cluster, namespaces={"default": Namespace.from_object({"metadata": metadata})}), rules
    )


def annotations_of(mutation: PodDecision) -> dict[str, str]:
    return dict(mutation.mutated["metadata"].get("annotations") or {})


def is_managed(mutation: PodDecision) -> bool:
    managed = PLACEMENT in annotations_of(mutation)
    assert managed == (not mutation.message.startswith("unmanaged: "))
    assert managed == (mutation.mutated["spec"].get("schedulingGates") == [{"name": PLACEMENT_GATE}])
    return managed


PODS: dict[str, tuple[dict[str, Any], Manage]] = {
    "annotated": (pod(), Manage.ANNOTATED),
    "aligned": (plain(), Manage.ALIGNED),
    "burstable": (burstable(), Manage.ALL),
}


ORDER = list(Manage)


@pytest.mark.parametrize("words", PODS)
@pytest.mark.parametrize("label", [None, *BY_LABEL])
@pytest.mark.parametrize("setting", Manage)
def test_the_namespaces_label_wins_over_the_setting_both_ways(words: str, label: str | None, setting: Manage) -> None:
    raw, first = PODS[words]
    mode = setting if label is None else BY_LABEL[label]
    mutation = mutation_of(raw, Rules(manage=setting), labels={} if label is None else {MANAGE_LABEL: label})
    assert is_managed(mutation) == (ORDER.index(mode) >= ORDER.index(first))
    # A mark says why a pod is managed that asks for nothing itself.
    expected = mode.label if is_managed(mutation) and words != "annotated" else None
    assert annotations_of(mutation).get(MANAGED) == expected


def test_a_pod_that_is_managed_by_its_mode_alone_follows_each_nodes_policy() -> None:
    mutation = mutation_of(plain(), Rules(manage=Manage.ALIGNED, gate="Never"))
    assert mutation.message.startswith("each node's own NUMA policy: 1 of 2 nodes fits; best b (")
    assert NUMA_DEFAULTS not in annotations_of(mutation)


def test_a_pod_that_no_kubelet_aligns_is_left_alone_and_that_is_said() -> None:
    for cluster, raw in ((WITHOUT_POLICY, plain()), (CLUSTER, burstable())):
        mutation = mutation_of(raw, Rules(manage=Manage.ALIGNED), cluster=cluster)
        assert mutation.message.startswith("unmanaged: no annotation scheduling.koordinator.sh/numa-topology-spec")
        assert mutation.message.endswith("no kubelet with a NUMA policy would align it (manage is Aligned)")
        assert (mutation.operations, mutation.warnings) == ((), ())


OTHERS: dict[str, dict[str, Any]] = {
    "bound": {"nodeName": "a"},
    "another scheduler's": {"schedulerName": "koord-scheduler"},
    "a DaemonSet's": {
        "metadata": {"name": "p", "ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]}
    },
    "a mirror": {"metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}}},
    "static": {"metadata": {"name": "p", "annotations": {"kubernetes.io/config.source": "file"}}},
    "of kube-system": {"metadata": {"name": "p", "namespace": "kube-system"}},
    "of the service's own namespace": {"metadata": {"name": "p", "namespace": "topology-webhook"}},
}


@pytest.mark.parametrize("words", OTHERS)
def test_pods_that_others_place_stay_left_alone(words: str) -> None:
    raw = pod(**copy.deepcopy(OTHERS[words]))
    raw["metadata"].get("annotations", {}).pop(NUMA_TOPOLOGY_SPEC, None)
    rules = Rules(manage=Manage.ALL, excluded_namespaces=frozenset({"kube-system", "topology-webhook"}))
    mutation = mutate_pod(raw, CLUSTER, rules)
    assert mutation.message.startswith("unmanaged: ")
    assert mutation.operations == ()


def test_a_pod_that_is_too_large_to_be_placed_is_left_alone_if_it_never_asked() -> None:
    raw = plain()
    raw["spec"]["containers"] *= 65
    assert mutation_of(raw, Rules()).warnings == ()
    mutation = mutation_of(raw, Rules(manage=Manage.ALL))
    assert mutation.verdict is Verdict.ALLOW
    assert mutation.message.startswith("unmanaged: it cannot be placed here: spec.containers: There are 65 containers")
    assert mutation.warnings == (mutation.message,)


@pytest.mark.parametrize("label", ["Aligned", "everything"])
def test_an_unknown_label_is_told_and_the_setting_holds(label: str) -> None:
    for setting in Manage:
        mutation = mutation_of(plain(), Rules(manage=setting), labels={MANAGE_LABEL: label})
        assert is_managed(mutation) == (setting is not Manage.ANNOTATED)
        (warning,) = mutation.warnings
        assert warning.startswith(f"namespace default: metadata.labels[{MANAGE_LABEL}]: '{label}' is unknown, so the ")
        assert "Allowed are annotated, aligned, all." in warning


def test_what_a_second_pass_finds_stays() -> None:
    rules = Rules(manage=Manage.ALIGNED, defaults=NUMASpec(NUMAPolicy.SINGLE_NUMA_NODE, Exclusive.PREFERRED))
    first = mutation_of(plain(), rules)
    assert jsonpatch.apply_patch(plain(), list(first.operations)) == first.mutated
    second = mutation_of(first.mutated, rules)
    assert second.mutated == first.mutated
    # A manifest that was exported there stays managed where the mode is another one; the defaults are those of here.
    elsewhere = mutation_of(first.mutated, Rules())
    assert annotations_of(elsewhere).keys() & {MANAGED, NUMA_DEFAULTS} == {MANAGED}
    assert elsewhere.message.startswith("each node's own NUMA policy")


@pytest.mark.parametrize(
    ("own", "of_namespace", "setting", "policy"),
    [
        (None, None, "", ""),
        (None, None, "S", "S"),
        (None, "R", "S", "R"),
        (None, "", "S", ""),
        ("B", "R", "S", "B"),
        ("", "R", "S", ""),
        ("B", None, "S", "B"),
        ("", None, "S", ""),
        ("S", "", "", "S"),
    ],
)
def test_the_policy_is_the_pods_then_the_namespaces_then_the_settings(
    own: str | None, of_namespace: str | None, setting: str, policy: str
) -> None:
    raw = plain() if own is None else pod(numa=NUMASpec(POLICIES[own]).to_json())
    annotations = {} if of_namespace is None else {NUMA_TOPOLOGY_SPEC: NUMASpec(POLICIES[of_namespace]).to_json()}
    defaults = NUMASpec(POLICIES[setting]) if setting else NO_SPEC
    rules = Rules(manage=Manage.ALL, defaults=defaults)
    mutation = mutation_of(raw, rules, cluster=OF_EACH_POLICY, annotations=annotations)
    # All that comes later reads the pod alone.
    assert parse_numa_intent(annotations_of(mutation))[0].policy == (POLICIES[policy] or None)
    asked = POLICIES[policy].koordinator or "each node's own NUMA policy"
    assert f"{asked}: " in mutation.message


REQUIRED, PREFERRED = Exclusive.REQUIRED, Exclusive.PREFERRED


@pytest.mark.parametrize(
    ("own", "of_namespace", "setting", "exclusive"),
    [
        (None, None, None, REQUIRED),
        (None, None, PREFERRED, PREFERRED),
        (None, REQUIRED, PREFERRED, REQUIRED),
        (None, PREFERRED, None, PREFERRED),
        (REQUIRED, PREFERRED, PREFERRED, REQUIRED),
        (PREFERRED, REQUIRED, None, PREFERRED),
    ],
)
def test_exclusiveness_is_the_pods_then_the_namespaces_then_the_settings(
    own: Exclusive | None, of_namespace: Exclusive | None, setting: Exclusive | None, exclusive: Exclusive
) -> None:
    single = NUMAPolicy.SINGLE_NUMA_NODE
    annotations = {NUMA_TOPOLOGY_SPEC: NUMASpec(None, of_namespace).to_json()}
    rules = Rules(defaults=NUMASpec(None, setting))
    # Also of pods that are managed since they ask.
    mutation = mutation_of(pod(numa=NUMASpec(single, own).to_json()), rules, annotations=annotations)
    assert parse_numa_intent(annotations_of(mutation))[0].exclusive is exclusive
    # Without a policy it means nothing.
    mutation = mutation_of(plain(), replace(rules, manage=Manage.ALL), annotations=annotations)
    assert parse_numa_intent(annotations_of(mutation))[0].exclusive is None
    assert NUMA_DEFAULTS not in annotations_of(mutation) or setting is PREFERRED or of_namespace is PREFERRED


def test_a_default_policy_is_no_request_that_a_kubelet_could_fail_to_fulfil() -> None:
    rules = Rules(manage=Manage.ALL, not_alignable="Deny", defaults=NUMASpec(NUMAPolicy.SINGLE_NUMA_NODE))
    mutation = mutation_of(burstable(), rules)
    assert is_managed(mutation)
    assert (mutation.warnings, "aligns" in mutation.message) == ((), False)
    asking = burstable()
    asking["metadata"]["annotations"] = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
    assert mutation_of(asking, rules).reason == "NotAlignable"


def test_defaults_do_not_make_a_pod_managed_and_one_that_leaves_nothing_open_carries_none() -> None:
    single = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
    assert not is_managed(mutation_of(plain(), Rules(defaults=NUMASpec(NUMAPolicy.RESTRICTED)), annotations=single))
    both = NUMASpec(NUMAPolicy.SINGLE_NUMA_NODE, Exclusive.REQUIRED).to_json()
    rules = Rules(defaults=NUMASpec(NUMAPolicy.RESTRICTED, Exclusive.PREFERRED))
    assert NUMA_DEFAULTS not in annotations_of(mutation_of(pod(numa=both), rules))
    assert NUMA_DEFAULTS not in annotations_of(mutation_of(pod(numa="{}"), Rules()))


def test_a_pod_that_may_take_its_owners_annotations_carries_the_defaults_below_them() -> None:
    raw = plain()
    raw["metadata"]["annotations"] = {INHERIT: "true"}
    rules = Rules(defaults=NUMASpec(NUMAPolicy.RESTRICTED, Exclusive.PREFERRED))
    mutation = mutation_of(raw, rules, cluster=OF_EACH_POLICY)
    written = annotations_of(mutation)
    assert parse_numa_intent(written)[0].policy is NUMAPolicy.RESTRICTED
    taken = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
    intent = parse_numa_intent({**written, **taken})[0]
    assert (intent.policy, intent.exclusive) == (NUMAPolicy.SINGLE_NUMA_NODE, Exclusive.PREFERRED)


def test_a_pod_whose_owners_may_ask_is_managed_by_its_mode_if_they_do_not() -> None:
    raw = plain()
    raw["metadata"]["annotations"] = {INHERIT: "true"}
    assert annotations_of(mutation_of(raw, Rules(manage=Manage.ALIGNED)))[MANAGED] == "aligned"
    assert MANAGED not in annotations_of(mutation_of(raw, Rules()))
    raw["spec"]["containers"][0]["resources"] = {}
    assert MANAGED not in annotations_of(mutation_of(raw, Rules(manage=Manage.ALIGNED)))


WRONG = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "Strict"}'}


def test_a_namespaces_wrong_annotation_denies_the_pods_that_need_it() -> None:
    for raw in (plain(), pod(numa="{}"), pod()):  # the last one leaves its exclusiveness open
        mutation = mutation_of(raw, Rules(manage=Manage.ALIGNED), annotations=WRONG)
        assert (mutation.verdict, mutation.reason) == (Verdict.DENY, "InvalidAnnotation")
        assert mutation.message.startswith(
            f'namespace default: metadata.annotations[{NUMA_TOPOLOGY_SPEC}].numaTopologyPolicy: "Strict" is unknown. '
            "Allowed are BestEffort, Restricted, SingleNUMANode,"
        )


def test_a_namespaces_wrong_annotation_is_nothing_to_pods_that_need_it_not() -> None:
    stated = pod(numa=NUMASpec(NUMAPolicy.SINGLE_NUMA_NODE, Exclusive.REQUIRED).to_json())
    assert is_managed(mutation_of(stated, Rules(manage=Manage.ALIGNED), annotations=WRONG))
    assert is_managed(mutation_of(pod(numa='{"numaTopologyPolicy": ""}'), Rules(), annotations=WRONG))
    assert not is_managed(mutation_of(plain(), Rules(), annotations=WRONG))
    assert not is_managed(mutation_of(burstable(), Rules(manage=Manage.ALIGNED), annotations=WRONG))


def test_a_namespaces_fault_stays_that_namespaces() -> None:
    broken = Namespace.from_object(
        {"metadata": {"name": "team-a", "annotations": WRONG, "labels": {MANAGE_LABEL: "x"}}}
    )
    cluster = replace(CLUSTER, namespaces={"team-a": broken, "default": Namespace("default")})
    rules = Rules(manage=Manage.ALIGNED)
    assert is_managed(mutate_pod(plain(), cluster, rules))
    assert mutate_pod(plain(), cluster, rules).message == mutate_pod(plain(), CLUSTER, rules).message
    assert mutate_pod(plain(metadata={"name": "p", "namespace": "team-a"}), cluster, rules).verdict is Verdict.DENY


def test_the_webhook_answers_with_the_warnings_also_where_it_leaves_a_pod_alone() -> None:
    labelled = Namespace.from_object({"metadata": {"name": "default", "labels": {MANAGE_LABEL: "x"}}})
    cluster = replace(CLUSTER, namespaces={"default": labelled})
    assert warnings(answered(review(plain()), cluster, Rules())) == labelled.warnings
    answer = answered(review(plain()), cluster, Rules(manage=Manage.ALL))
    assert isinstance(answer, Patched)
    assert set(labelled.warnings) <= set(answer.warnings)


@pytest.mark.parametrize("name", [MANAGED, NUMA_DEFAULTS])
def test_the_marks_may_come_with_a_manifest_and_are_written_again(name: str) -> None:
    raw = pod()
    raw["metadata"]["annotations"][name] = "x" * 1000
    answer = answered(review(raw), CLUSTER, Rules())
    assert isinstance(answer, Patched)
    left = jsonpatch.apply_patch(raw, list(answer.patch))["metadata"]["annotations"]
    assert name not in left
    # Nothing would overwrite them in a pod that the service does not mutate.
    raw["spec"]["schedulerName"] = "other"
    assert isinstance(answered(review(raw), CLUSTER, Rules()), Denied)
