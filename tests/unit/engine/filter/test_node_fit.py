"""The scheduler's filters for all nodes at once, compared with a plain implementation for one node."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.records import node, pod, resident, state
from webhook.engine.filter.node_fit import node_fit
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.label_columns import integer
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NO_INTENT
from webhook.formats.kubernetes.node import Node, Taint
from webhook.formats.kubernetes.pod import Pod


def verdicts(cluster: ClusterState, asked: Pod) -> dict[str, Reason]:
    """Node name -> reason."""
    node_arrays = cluster.node_arrays()
    found = node_fit(Snapshot(node_arrays), asked, PodRequest.of(asked, NO_INTENT, node_arrays.resources))
    return {name: list(Reason)[found[n]] for n, name in enumerate(node_arrays.names)}


def required(*terms: Mapping[str, Any]) -> dict[str, Any]:
    """A pod spec with required node affinity."""
    selector = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A term of one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(operator: str, *names: str) -> dict[str, Any]:
    """A term of one field requirement."""
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(names)}]}


SIZES = state(
    *(
        node(name=f"size-{size}", labels={"size": size})
        for size in ("1", "5", "10", "big", "-3", "99999999999999999999")
    ),
    node(name="none"),
)


@pytest.mark.parametrize(
    ("term", "fitting"),
    [
        (expression("size", "In", "1", "5"), {"size-1", "size-5"}),
        (expression("size", "In", "unseen"), set()),
        (expression("size", "NotIn", "1", "5", "big"), {"size-10", "size--3", "size-99999999999999999999", "none"}),
        (expression("size", "Exists"), {f"size-{s}" for s in ("1", "5", "10", "big", "-3", "99999999999999999999")}),
        (expression("size", "DoesNotExist"), {"none"}),
        (expression("size", "Gt", "4"), {"size-5", "size-10"}),
        (expression("size", "Lt", "5"), {"size-1", "size--3"}),
        (expression("size", "Gt", "+4"), {"size-5", "size-10"}),
        (named("In", "size-1"), {"size-1"}),
        (named("In", "unseen"), set()),
        (named("NotIn", "unseen"), set(SIZES.nodes)),
        (named("NotIn", "none"), set(SIZES.nodes) - {"none"}),
        ({}, set()),
        # Malformed, as the API server would never let in: matches nothing.
        (expression("size", "In"), set()),
        (expression("size", "Exists", "1"), set()),
        (expression("size", "Gt", "four"), set()),
        (expression("size", "Gt", "1", "2"), set()),
        (expression("size", "Near", "1"), set()),
        (named("In", "size-1", "size-5"), set()),
        ({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["size-1"]}]}, set()),
    ],
)
def test_a_term_matches(term: dict[str, Any], fitting: set[str]) -> None:
    found = verdicts(SIZES, pod(spec=required(term)))
    assert {name for name, reason in found.items() if reason is Reason.FITS} == fitting
    assert set(found.values()) <= {Reason.FITS, Reason.NODE_AFFINITY_MISMATCH}


def test_requirements_of_a_term_are_anded_and_terms_are_ored() -> None:
    both = {**expression("size", "Exists"), **named("In", "none")}
    assert Reason.FITS not in verdicts(SIZES, pod(spec=required(both))).values()
    either = verdicts(SIZES, pod(spec=required(expression("size", "In", "1"), named("In", "none"), {})))
    assert {name for name, reason in either.items() if reason is Reason.FITS} == {"size-1", "none"}


def test_an_affinity_without_terms_matches_nothing() -> None:
    assert set(verdicts(SIZES, pod(spec=required())).values()) == {Reason.NODE_AFFINITY_MISMATCH}


def test_a_label_written_later_is_seen_by_a_column_made_earlier() -> None:
    cluster = state(node(name="a", labels={"disk": "hdd"}), node(name="b"))
    asked = pod(spec={"nodeSelector": {"disk": "ssd"}})
    assert Reason.FITS not in verdicts(cluster, asked).values()
    for labels in ({"disk": "ssd"}, {}, {"disk": "hdd"}, {"disk": "ssd"}):
        cluster.upsert_node(node(name="b", labels=labels))
        expected = Reason.FITS if labels.get("disk") == "ssd" else Reason.NODE_SELECTOR_MISMATCH
        assert verdicts(cluster, asked)["b"] is expected


def test_values_of_nodes_long_gone_are_forgotten() -> None:
    cluster = ClusterState()
    asked = pod(spec={"nodeSelector": {"host": "Never"}})
    for number in range(1200):
        cluster.upsert_node(node(name=f"n{number}", labels={"host": f"n{number}"}))
        cluster.delete_node(f"n{number - 1}")
        if number % 10 == 0:
            verdicts(cluster, asked)
    cluster.upsert_node(node(name="last", labels={"host": "last"}))
    assert len(cluster.node_arrays().labels.column("host")[1].values) < 1100
    assert verdicts(cluster, pod(spec={"nodeSelector": {"host": "last"}}))["last"] is Reason.FITS


# A tenant writes any keys into the affinity of pods that are only tried (dry run).
def test_keys_that_no_node_has_leave_nothing_behind() -> None:
    cluster = state(node(name="a", labels={"zone": "z"}), node(name="b"))
    foreign = [expression(f"key-{number}", "NotIn", "x") for number in range(100)]
    assert set(verdicts(cluster, pod(spec=required(*foreign))).values()) == {Reason.FITS}
    verdicts(cluster, pod(spec=required(expression("zone", "Exists"))))
    kept = cluster.node_arrays().labels
    assert (set(kept.columns), set(kept.vocabularies)) == ({"zone"}, {"zone"})


def test_a_key_that_comes_goes_and_comes_back_is_known_while_a_node_has_it() -> None:
    cluster = state(node(name="a"), node(name="b"))
    asked = pod(spec=required(expression("disk", "Exists")))
    for labels in ({}, {"disk": "ssd"}, {}, {"disk": "hdd", "zone": "z"}, {"zone": "z"}, {"disk": "ssd"}):
        cluster.upsert_node(node(name="b", labels=labels))
        expected = Reason.FITS if "disk" in labels else Reason.NODE_AFFINITY_MISMATCH
        assert verdicts(cluster, asked)["b"] is expected
    cluster.delete_node("b")
    assert verdicts(cluster, asked) == {"a": Reason.NODE_AFFINITY_MISMATCH}


def test_label_values_are_read_as_numbers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str) -> int | None:
        read.append(text)
        return integer(text)

    monkeypatch.setattr("webhook.engine.snapshot.label_columns.integer", counted)
    cluster = state(*(node(name=f"n{number}", labels={"size": str(number)}) for number in range(50)))
    found = verdicts(cluster, pod(spec=required({"matchExpressions": GREATER})))
    assert [name for name, reason in found.items() if reason is Reason.FITS] == ["n49"]
    assert len(read) == 50
    cluster.upsert_node(node(name="n50", labels={"size": "50"}))
    assert verdicts(cluster, pod(spec=required({"matchExpressions": GREATER})))["n50"] is Reason.FITS
    assert len(read) == 51


GREATER = [{"key": "size", "operator": "Gt", "values": [str(bound)]} for bound in range(49)]

NO_SCHEDULE = Taint("team", "a", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "a"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "team", "value": "b"}, False),
        ({"key": "team"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "team", "operator": "Near", "value": "a"}, False),
    ],
)
def test_a_toleration_covers_a_taint(toleration: dict[str, str], tolerated: bool) -> None:
    found = verdicts(state(node(name="a", taints=[NO_SCHEDULE])), pod(spec={"tolerations": [toleration]}))
    assert found["a"] is (Reason.FITS if tolerated else Reason.UNTOLERATED_TAINT)


def test_every_taint_must_be_tolerated_but_a_preference_need_not() -> None:
    cluster = state(
        node(name="soft", taints=[Taint("team", "a", "PreferNoSchedule")]),
        node(name="evicting", taints=[Taint("team", "a", "NoExecute")]),
        node(name="two", taints=[NO_SCHEDULE, Taint("gpu", "", "NoSchedule")]),
    )
    asked = pod(spec={"tolerations": [{"key": "team", "operator": "Exists", "effect": "NoSchedule"}]})
    assert verdicts(cluster, asked) == {
        "soft": Reason.FITS,
        "evicting": Reason.UNTOLERATED_TAINT,
        "two": Reason.UNTOLERATED_TAINT,
    }


@pytest.mark.parametrize(
    ("unfit", "taint", "reason"),
    [
        (node(name="a", cordoned=True), "unschedulable", Reason.UNSCHEDULABLE),
        (node(name="a", ready=False), "not-ready", Reason.NOT_READY),
    ],
)
def test_a_node_out_of_service_takes_only_pods_that_tolerate_it(unfit: Node, taint: str, reason: Reason) -> None:
    toleration = {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoSchedule"}
    assert verdicts(state(unfit), pod())["a"] is reason
    assert verdicts(state(unfit), pod(spec={"tolerations": [toleration]}))["a"] is Reason.FITS


def test_what_is_requested_must_be_free() -> None:
    cluster = state(
        node(name="roomy", allocatable={"cpu": 8000, "pods": 3}),
        node(name="busy", allocatable={"cpu": 8000, "pods": 3}),
        resident(name="p", node="busy", requests={"cpu": 5000}),
        node(name="full", allocatable={"cpu": 8000, "pods": 1}),
        resident(name="q", node="full", requests={}),
        node(name="podless", allocatable={"cpu": 8000}),
        node(name="other", allocatable={"memory": 1, "pods": 3}),
    )
    assert verdicts(cluster, pod({"cpu": "4"})) == {
        "roomy": Reason.FITS,
        "busy": Reason.INSUFFICIENT_RESOURCES,
        "full": Reason.TOO_MANY_PODS,
        "podless": Reason.TOO_MANY_PODS,
        "other": Reason.INSUFFICIENT_RESOURCES,
    }


def test_a_resource_nobody_has_is_missed_unless_none_of_it_is_asked_for() -> None:
    cluster = state(node(name="a"))
    assert verdicts(cluster, pod({"example.com/gpu": "1"}))["a"] is Reason.INSUFFICIENT_RESOURCES
    assert verdicts(cluster, pod({"example.com/gpu": "0"}))["a"] is Reason.FITS


def test_the_first_reason_counts() -> None:
    everything_wrong = node(name="a", allocatable={"pods": 0}, taints=[NO_SCHEDULE], cordoned=True, ready=False)
    asked = pod({"cpu": "1"}, spec={"nodeSelector": {"x": "y"}, **required({})})
    assert verdicts(state(everything_wrong), asked)["a"] is Reason.NOT_READY


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("0" * 30 + "7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
    ]
    + [(text, None) for text in ("", " 7", "7 ", "1_000", "0x7", "٣", "1.0", "1e3")],
)
def test_label_values_are_read_as_go_reads_integers(text: str, number: int | None) -> None:
    assert integer(text) == number


KEYS = ("zone", "size", "disk")
VALUES = ("a", "b", "1", "2", "30", "-4")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
TAINTS = st.builds(
    Taint,
    st.sampled_from(["t", "u"]),
    st.sampled_from(["", "x"]),
    st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
)
NODES = st.builds(
    node,
    name=st.sampled_from([f"n{number}" for number in range(6)]),
    allocatable=st.fixed_dictionaries(
        {"cpu": st.integers(0, 4).map(lambda cpus: cpus * 1000), "pods": st.integers(0, 2)}
    ),
    labels=LABELS,
    taints=st.lists(TAINTS, max_size=2),
    cordoned=st.booleans(),
    ready=st.booleans(),
)
EXPRESSIONS: st.SearchStrategy[tuple[str, str, list[str]]] = st.one_of(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["In", "NotIn"]), st.lists(st.sampled_from(VALUES), min_size=1)),
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["Gt", "Lt"]), st.sampled_from([["0"], ["2"], ["-10"]])),
)
FIELDS = st.tuples(
    st.just("metadata.name"), st.sampled_from(["In", "NotIn"]), st.sampled_from([["n0"], ["n1"], ["n9"]])
)


def _as_objects(requirements: list[tuple[str, str, list[str]]]) -> list[dict[str, Any]]:
    return [{"key": key, "operator": operator, "values": values} for key, operator, values in requirements]


TERMS = st.builds(
    lambda expressions, fields: {"matchExpressions": _as_objects(expressions), "matchFields": _as_objects(fields)},
    st.lists(EXPRESSIONS, max_size=2),
    st.lists(FIELDS, max_size=1),
)
TOLERATIONS = st.fixed_dictionaries(
    {"operator": st.sampled_from(["Exists", "Equal"])},
    optional={
        "key": st.sampled_from(["t", "u", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"]),
        "value": st.sampled_from(["", "x"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
    },
)
SPECS = st.fixed_dictionaries(
    {"nodeSelector": LABELS, "tolerations": st.lists(TOLERATIONS, max_size=3)},
)
PODS = st.builds(
    lambda cpu, spec, terms: pod({"cpu": str(cpu)}, spec=spec if terms is None else {**spec, **required(*terms)}),
    st.integers(0, 3),
    SPECS,
    st.none() | st.lists(TERMS, max_size=3),
)


@settings(deadline=None)
@given(st.lists(NODES, max_size=8), PODS)
def test_all_nodes_at_once_agree_with_one_node_at_a_time(nodes: list[Node], asked: Pod) -> None:
    cluster = ClusterState()
    for told in nodes:
        cluster.upsert_node(told)
        cluster.node_arrays().labels.column("zone")
    assert verdicts(cluster, asked) == {name: plain(known, asked) for name, known in cluster.nodes.items()}


def plain(known: Node, asked: Pod) -> Reason:
    """The same rules, one by one, for a node without pods."""
    cordon, not_ready = (Taint(f"node.kubernetes.io/{t}", "", "NoSchedule") for t in ("unschedulable", "not-ready"))
    if not known.ready and not _tolerated(asked, not_ready):
        return Reason.NOT_READY
    if known.unschedulable and not _tolerated(asked, cordon):
        return Reason.UNSCHEDULABLE
    if any(known.labels.get(key) != value for key, value in asked.node_selector.items()):
        return Reason.NODE_SELECTOR_MISMATCH
    if asked.required_terms is not None and not any(_term_holds(known, term) for term in asked.required_terms):
        return Reason.NODE_AFFINITY_MISMATCH
    if any(taint.effect != "PreferNoSchedule" and not _tolerated(asked, taint) for taint in known.taints):
        return Reason.UNTOLERATED_TAINT
    if known.allocatable.get("pods", 0) < 1:
        return Reason.TOO_MANY_PODS
    if any(amount > known.allocatable.get(name, 0) for name, amount in asked.requests.items()):
        return Reason.INSUFFICIENT_RESOURCES
    return Reason.FITS


def _tolerated(asked: Pod, taint: Taint) -> bool:
    for toleration in asked.tolerations:
        effect_matches = toleration.get("effect", taint.effect) == taint.effect
        key_matches = toleration.get("key", taint.key) == taint.key
        value_matches = toleration["operator"] == "Exists" or toleration.get("value", "") == taint.value
        if effect_matches and key_matches and value_matches:
            return True
    return False


def _term_holds(known: Node, term: Mapping[str, Any]) -> bool:
    checks = [_holds(known.labels.get(raw["key"]), raw) for raw in term["matchExpressions"]]
    checks += [_holds(known.name, raw) for raw in term["matchFields"]]
    return bool(checks) and all(checks)


def _holds(value: str | None, raw: Mapping[str, Any]) -> bool:
    match raw["operator"]:
        case "In":
            return value in raw["values"]
        case "NotIn":
            return value not in raw["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            if value is None or not value.lstrip("-").isdigit():
                return False
            bound = int(raw["values"][0])
            return int(value) > bound if operator == "Gt" else int(value) < bound
