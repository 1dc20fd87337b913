"""A pod's preferences, compared with kube-scheduler's test tables and with a plain implementation of its rules."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.records import SINGLE, cpus, node, pod, state, topology
from tests.unit.engine.decisions import decision
from webhook.engine.decide import Candidate
from webhook.engine.filter.node_preference import PER_POINT, Preference
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.formats.kubernetes.node import Node, Taint
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Options

Term = dict[str, Any]


def among(key: str, *values: str) -> Term:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def preferring(*terms: tuple[int, Term], tolerations: Sequence[Mapping[str, str]] = (), cpu: str = "5") -> Pod:
    """A pod with these preferred terms and tolerations."""
    raw = [{"weight": weight, "preference": term} for weight, term in terms]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": raw}}
    return pod(
        {"cpu": cpu, "memory": "1Gi"},
        policy="SingleNUMANode",
        spec={"affinity": affinity, "tolerations": list(tolerations)},
    )


def soft(*keys_and_values: tuple[str, str]) -> list[Taint]:
    return [Taint(key, value, "PreferNoSchedule") for key, value in keys_and_values]


def points(asked: Pod, *nodes: Node) -> dict[str, int] | None:
    """Node name -> 0..100; None if all nodes are equal."""
    node_arrays = state(*nodes).node_arrays()
    preference = Preference.of(node_arrays, asked)
    found = None if preference is None else preference.among(np.arange(node_arrays.n))
    return None if found is None else dict(zip(node_arrays.names, (found / PER_POINT).tolist(), strict=True))


FOO, KEY, ZONE = among("foo", "bar"), among("key", "value"), among("az", "az1")
ALL = {"matchExpressions": [*FOO["matchExpressions"], *KEY["matchExpressions"], *ZONE["matchExpressions"]]}
LABELS = {
    "foo": node(name="foo", labels={"foo": "bar"}),
    "key": node(name="key", labels={"key": "value"}),
    "az": node(name="az", labels={"az": "az1"}),
    "other": node(name="other", labels={"abc": "az11", "def": "az22"}),
    "all": node(name="all", labels={"foo": "bar", "key": "value", "az": "az1"}),
}


# kubernetes pkg/scheduler/framework/plugins/nodeaffinity/node_affinity_test.go (TestNodeAffinityPriority)
@pytest.mark.parametrize(
    ("terms", "nodes", "expected"),
    [
        ((), ("foo", "key", "az"), None),
        ([(2, FOO)], ("other", "key", "az"), None),
        ([(2, FOO)], ("foo", "key", "az"), [100, 0, 0]),
        ([(2, FOO), (4, KEY), (5, ALL)], ("foo", "all", "key"), [18, 100, 36]),
        ([(2, FOO), (3, KEY)], ("foo", "key", "all"), [40, 60, 100]),
        ([(2, {}), (3, {"matchExpressions": []})], ("foo", "key"), None),
    ],
)
def test_affinity_as_the_scheduler_scores_it(
    terms: Sequence[tuple[int, Term]], nodes: Sequence[str], expected: list[int] | None
) -> None:
    found = points(preferring(*terms), *(LABELS[name] for name in nodes))
    assert found == (None if expected is None else dict(zip(nodes, expected, strict=True)))


def tolerating(*keys_and_values: tuple[str, str], effect: str = "PreferNoSchedule") -> list[dict[str, str]]:
    return [{"key": key, "operator": "Equal", "value": value, "effect": effect} for key, value in keys_and_values]


ARM, SSD = ("cpu-type", "arm64"), ("disk-type", "ssd")


# kubernetes pkg/scheduler/framework/plugins/tainttoleration/taint_toleration_test.go (TestTaintTolerationScore)
@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        (tolerating(("foo", "bar")), ([("foo", "bar")], [("foo", "blah")]), [100, 0]),
        (tolerating(ARM, SSD), ([], [ARM], [ARM, SSD]), None),
        (tolerating(("foo", "bar")), ([], [ARM], [ARM, SSD]), [100, 50, 0]),
        (tolerating(ARM, SSD, effect="NoSchedule"), ([], [ARM], [ARM, SSD]), [100, 50, 0]),
        ([], ([], [ARM]), [100, 0]),
        ([{"operator": "Exists"}], ([], [ARM]), None),
        ([{"operator": "Exists", "effect": "NoSchedule"}], ([], [ARM]), [100, 0]),
        ([{"key": "cpu-type", "operator": "Exists"}], ([], [ARM, SSD], [SSD]), [100, 0, 0]),
        ([{"key": "cpu-type", "value": "arm64"}], ([], [ARM, SSD], [ARM]), [100, 0, 100]),
        ([{"key": "cpu-type", "operator": "Gt", "value": "1"}], ([], [ARM]), [100, 0]),
        ([], ([ARM], [ARM]), None),
    ],
)
def test_soft_taints_as_the_scheduler_scores_them(
    tolerations: Sequence[Mapping[str, str]],
    taints: Sequence[Sequence[tuple[str, str]]],
    expected: list[int] | None,
) -> None:
    nodes = [node(name=f"n{number}", taints=soft(*each)) for number, each in enumerate(taints)]
    found = points(preferring(tolerations=tolerations), *nodes)
    assert found == (None if expected is None else {f"n{n}": each for n, each in enumerate(expected)})


def test_taints_that_keep_pods_away_are_no_matter_of_preference() -> None:
    assert points(preferring(), node(name="a"), node(name="b", taints=[Taint("k", "v", "NoSchedule")])) is None


def test_affinity_and_taints_are_weighed_two_to_three() -> None:
    # a: affinity 100, taints 0; b: affinity 0, taints 100; c: affinity 50, taints 50
    a = node(name="a", labels={"foo": "bar"}, taints=soft(ARM, SSD))
    b = node(name="b", labels={"key": "value"})
    c = node(name="c", labels={"az": "az1"}, taints=soft(ARM))
    assert points(preferring((10, FOO), (5, ZONE)), a, b, c) == {"a": 40, "b": 60, "c": 50}


NAMES = [f"n{number}" for number in range(6)]
KEYS = st.sampled_from(["k", "l"])
VALUES = st.sampled_from(["", "1", "2"])
TERMS = st.lists(
    st.tuples(
        st.integers(1, 100),
        st.fixed_dictionaries(
            {
                "matchExpressions": st.lists(
                    st.builds(
                        lambda key, operator, values: {
                            "key": key,
                            "operator": operator,
                            "values": values if operator in {"In", "NotIn"} else [],
                        },
                        KEYS,
                        st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
                        st.lists(VALUES, min_size=1, max_size=2),
                    ),
                    max_size=2,
                )
            }
        ),
    ),
    max_size=3,
)
TOLERATIONS = st.lists(
    st.builds(
        lambda key, operator, value, effect: {
            field: text
            for field, text in (("key", key), ("operator", operator), ("value", value), ("effect", effect))
            if text is not None
        },
        KEYS,
        st.sampled_from([None, "Exists", "Equal", "Gt"]),
        VALUES,
        st.sampled_from([None, "", "PreferNoSchedule", "NoSchedule"]),
    )
    | st.just({"operator": "Exists"}),
    max_size=2,
)
CLUSTERS = st.lists(
    st.tuples(
        st.dictionaries(KEYS, VALUES, max_size=2),
        st.dictionaries(KEYS, VALUES, max_size=2),
        st.integers(4, 9),
    ),
    min_size=1,
    max_size=len(NAMES),
)


def plainly(asked: Pod, nodes: Sequence[Node]) -> dict[str, int]:
    """Affinity and taints, node by node, with kube-scheduler's weights 2 and 3."""

    def holds(labels: Mapping[str, str], requirement: Mapping[str, Any]) -> bool:
        there, values = requirement["key"] in labels, requirement["values"]
        match requirement["operator"]:
            case "In":
                return there and labels[requirement["key"]] in values
            case "NotIn":
                return not there or labels[requirement["key"]] not in values
            case "Exists":
                return there
            case _:
                return not there

    def tolerated(taint: Taint) -> bool:
        return any(
            raw.get("effect") in (None, "", taint.effect)
            and raw.get("key", taint.key) == taint.key
            and (raw.get("operator") == "Exists" or (raw.get("operator") != "Gt" and raw.get("value") == taint.value))
            for raw in asked.tolerations
        )

    def normalized(counts: list[int], *, reverse: bool) -> list[int]:
        most = max(counts)
        shares = [100 * count // most if most else 0 for count in counts]
        return [100 - share for share in shares] if reverse else shares

    weights = [
        sum(
            weight
            for weight, term in asked.preferred_terms
            if term["matchExpressions"] and all(holds(each.labels, one) for one in term["matchExpressions"])
        )
        for each in nodes
    ]
    taints = [sum(not tolerated(taint) for taint in each.taints) for each in nodes]
    both = zip(normalized(weights, reverse=False), normalized(taints, reverse=True), strict=True)
    return {each.name: 2 * affinity + 3 * soft for each, (affinity, soft) in zip(nodes, both, strict=True)}


def rising(order: Mapping[str, int]) -> list[list[str]]:
    """The names in groups of equal value, lowest first."""
    return [[name for name in sorted(order) if order[name] == value] for value in sorted(set(order.values()))]


@settings(deadline=None, max_examples=300)
@given(CLUSTERS, TERMS, TOLERATIONS)
def test_nodes_are_ranked_by_score_then_by_what_the_scheduler_would_prefer_then_by_name(
    described: list[tuple[dict[str, str], dict[str, str], int]],
    terms: list[tuple[int, Term]],
    tolerations: list[dict[str, str]],
) -> None:
    cluster = ClusterState()
    asked = preferring(*terms, tolerations=tolerations)
    for name, (labels, taints, free) in zip(NAMES, described, strict=False):
        cluster.upsert_node(node(name=name, labels=labels, taints=soft(*taints.items())))
        cluster.upsert_topology(topology(node=name, free=cpus(free), capacity={"cpu": 9000}))
        cluster.node_arrays().soft_taints.column("k")
    decided = decision(cluster, asked)
    fitting = [
        each for each in cluster.nodes.values() if cluster.topologies[each.name].zones[0].resources["cpu"][2] >= 5000
    ]
    assert decided.fit_count == len(fitting)
    if not fitting:
        return
    liked = plainly(asked, fitting)
    score = {one.node: one.score for one in decided.best(6)}
    expected = sorted(score, key=lambda name: (-score[name], -liked[name], name))
    for k in range(1, 7):
        assert [one.node for one in decided.best(k)] == expected[:k]
    found = {one.node: one.preference for one in decided.best(6)}
    if len(set(liked.values())) == 1:
        assert set(found.values()) == {None}
    else:
        values = {name: value for name, value in found.items() if value is not None}
        assert all(values[one] <= values[other] for one in values for other in values if liked[one] < liked[other])


# ── weight ──


# n0 [5]  n1 [9]  n2 [9]      [free CPUs of 9]; n2 is preferred
def uneven() -> ClusterState:
    labels: tuple[dict[str, str], ...] = ({}, {}, {"foo": "bar"})
    nodes = [node(name=f"n{number}", labels=each) for number, each in enumerate(labels)]
    return state(
        *nodes,
        *(
            topology(node=f"n{number}", free=cpus(free), capacity={"cpu": 9000}, policy=SINGLE)
            for number, free in enumerate((5, 9, 9))
        ),
    )


def best(weight: int, cluster: ClusterState | None = None) -> tuple[Candidate, ...]:
    options = Options(preference_weight=weight)
    return decision(cluster or uneven(), preferring((1, FOO)), options=options).best(3)


def test_without_a_weight_preference_only_decides_between_equal_scores() -> None:
    assert [(one.node, one.preference) for one in best(0)] == [("n0", 0), ("n2", 100), ("n1", 0)]


def test_with_a_weight_it_is_a_share_of_the_score() -> None:
    numa = {one.node: one.score for one in best(0)}
    assert [one.node for one in best(50)] == ["n2", "n0", "n1"]
    assert {one.node: one.score for one in best(50)} == {
        "n0": numa["n0"] // 2,
        "n1": numa["n1"] // 2,
        "n2": (numa["n2"] + 100) // 2,
    }


def test_with_the_whole_weight_the_numa_score_decides_between_equally_preferred_nodes() -> None:
    assert [(one.node, one.score) for one in best(100)] == [("n2", 100), ("n0", 0), ("n1", 0)]


def test_a_weight_changes_nothing_for_a_pod_that_prefers_nothing() -> None:
    weighed = decision(uneven(), preferring(), options=Options(preference_weight=100)).best(3)
    assert weighed == decision(uneven(), preferring()).best(3)
    assert {one.preference for one in weighed} == {None}
