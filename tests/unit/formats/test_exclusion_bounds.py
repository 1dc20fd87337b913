"""What a tenant may write about pods that exclude each other costs no more than a pod without it."""

from time import thread_time
from typing import Any

import pytest

from webhook.formats.kubernetes.exclusions import (
    MOST_PORTS,
    MOST_REQUIREMENTS,
    MOST_RULES,
    MOST_VALUES,
    PodExclusions,
    ignored_rule_text,
    likeness,
    limits_of,
    rules_across,
)
from webhook.model.names import HOSTNAME_LABEL

LABELS = {"app": "w"}
NODE = {"topologyKey": HOSTNAME_LABEL, "labelSelector": {"matchLabels": LABELS}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def on(*ports: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": "c", "ports": list(ports)}]}


def of(spec: dict[str, Any]) -> PodExclusions:
    found = PodExclusions.of(spec, "ns", LABELS)
    assert found is not None
    return found


def without(count: int) -> dict[str, Any]:
    """A rule about pods of the gang with this many requirements."""
    expressions = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(count)]
    return {"topologyKey": HOSTNAME_LABEL, "labelSelector": {"matchExpressions": expressions}}


@pytest.mark.parametrize(
    ("most", "more"),
    [
        (without(MOST_REQUIREMENTS), without(MOST_REQUIREMENTS + 1)),
        *(
            ({**NODE, key: ["app"] * (MOST_REQUIREMENTS - 1)}, {**NODE, key: ["app"] * MOST_REQUIREMENTS})
            for key in ("matchLabelKeys", "mismatchLabelKeys")
        ),
        tuple(
            {
                "topologyKey": HOSTNAME_LABEL,
                "labelSelector": {
                    "matchExpressions": [{"key": "app", "operator": "In", "values": list(map(str, range(count)))}]
                },
            }
            for count in (MOST_VALUES, MOST_VALUES + 1)
        ),
    ],
    ids=("requirements", "matchLabelKeys", "mismatchLabelKeys", "values"),
)
def test_a_rule_with_a_larger_selector_is_not_counted_and_named_with_the_bound(
    most: dict[str, Any], more: dict[str, Any]
) -> None:
    found = of({**apart(most, more), "topologySpreadConstraints": []})
    path = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[1]"
    assert (len(found.terms), found.unread) == (1, (path,))
    text = ignored_rule_text(path, "")
    assert all(str(bound) in text for bound in (MOST_RULES, MOST_REQUIREMENTS, MOST_VALUES, MOST_PORTS))


def test_of_any_number_of_rules_and_ports_the_first_count_and_the_next_one_is_named() -> None:
    found = of({**apart(*[NODE] * 5_000), **on(*({"hostPort": number} for number in range(1, 10_000)))})
    assert (len(found.terms), len(found.ports)) == (MOST_RULES, MOST_PORTS)
    begins = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    assert found.unread == (f"{begins}[{MOST_RULES}]", f"spec.containers: the host port {MOST_PORTS + 1}/TCP")
    selected = [{**NODE, "namespaceSelector": {"matchLabels": {"a": "b"}}}] * 5_000
    assert len(of(apart(*selected)).unread) == MOST_RULES


def test_no_text_that_is_no_protocol_and_no_number_that_is_no_port_gets_anywhere() -> None:
    odd: list[dict[str, Any]] = [
        *({"hostPort": 80, "protocol": text} for text in ("A\n\x1b[31m", "x" * 100_000, 7)),
        *({"hostPort": number} for number in (True, -1, 65_536, 10**5_000, 80.5, "80")),
    ]
    assert PodExclusions.of(on(*odd), "ns", LABELS) is None
    assert of(on(*odd, {"hostPort": 65_535, "protocol": "SCTP"})).ports == {("SCTP", 65_535, "")}


@pytest.mark.parametrize("values", [7, True, "x", {"a": 1}])
def test_values_that_are_no_list_are_those_of_no_rule(values: Any) -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}
    assert PodExclusions.of(apart({**NODE, "labelSelector": selector}), "ns", LABELS) is None


@pytest.mark.parametrize("skew", [2**31 - 1, 2**63, 10**400])
def test_a_skew_of_any_size_is_a_number_of_pods(skew: int) -> None:
    spec = {"topologySpreadConstraints": [{**NODE, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": skew}]}
    ((limit,), _) = limits_of([(LABELS, of(spec))], ())
    assert 1 <= limit.room < 2**31


def test_ports_of_many_addresses_make_a_bounded_number_of_limits_in_bounded_time() -> None:
    sets = [
        (LABELS, of(on(*({"hostPort": 80, "hostIP": f"10.0.{number % 250}.{part}"} for part in range(30)))))
        for number in range(999)
    ]
    begin = thread_time()
    limits, ignored = limits_of(sets, ())
    across = list(rules_across(sets, ["a", "b"] * 499 + ["a"]))
    assert thread_time() - begin < 2.0
    assert (len(limits), [path for _, path in ignored]) == (MOST_RULES, ["spec.containers: the host port 80/TCP"])
    assert len(across) <= len(sets) * MOST_RULES


def test_the_ports_of_other_parts_count_by_their_addresses() -> None:
    one, other = {"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}
    for mine, theirs, told in ((one, other, 0), (one, one, 2), (one, {"hostPort": 80}, 2), (one, {"hostPort": 81}, 0)):
        pods = [(LABELS, of(on(mine))), (LABELS, of(on(theirs)))]
        assert len(list(rules_across(pods, ["a", "b"]))) == told
        assert not list(rules_across(pods, ["a", "a"]))


def test_one_members_rules_make_no_member_remember_thousands_of_labels() -> None:
    keys = [
        {
            "matchLabels": LABELS,
            "matchExpressions": [{"key": f"k{n}-{m}", "operator": "DoesNotExist"} for m in range(15)],
        }
        for n in range(MOST_RULES)
    ]
    rules = [
        of(apart(*({**NODE, "labelSelector": {**key, "matchLabels": {f"l{n}": "x"}}} for key in keys)))
        for n in range(50)
    ]
    alike = likeness([(LABELS, rule) for rule in rules])
    remembered = alike(LABELS, None)
    assert isinstance(remembered, tuple)
    assert len(remembered) <= MOST_RULES * MOST_REQUIREMENTS + 1
