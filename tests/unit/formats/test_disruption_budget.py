"""PodDisruptionBudgets and their selectors."""

from typing import Any

import pytest

from webhook.formats.kubernetes.disruption_budget import DisruptionBudget
from webhook.model.errors import UserError

LABELS = {"app": "db", "tier": "gold"}


def budget(selector: Any, **status: Any) -> DisruptionBudget:
    return DisruptionBudget.from_object(
        {"metadata": {"name": "b", "namespace": "team"}, "spec": {"selector": selector}, "status": status}
    )


@pytest.mark.parametrize(
    ("selector", "covers"),
    [
        ({"matchLabels": {"app": "db"}}, True),
        ({"matchLabels": {"app": "web"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}, False),
        ({}, True),
        (None, False),
    ],
)
def test_a_selector_covers_pods_as_the_api_server_reads_it(selector: Any, covers: bool) -> None:
    assert budget(selector).covers("team", "db-0", LABELS) is covers


def test_pods_of_other_namespaces_and_those_that_are_counted_already_do_not_count() -> None:
    one = budget({"matchLabels": {"app": "db"}}, disruptionsAllowed=1, disruptedPods={"db-0": "2030-01-01T00:00:00Z"})
    assert one.allowed == 1
    assert not one.covers("other", "db-1", LABELS)
    assert not one.covers("team", "db-0", LABELS)
    assert one.covers("team", "db-1", LABELS)


def test_an_unknown_operator_is_a_fault() -> None:
    with pytest.raises(UserError, match="one of In, NotIn, Exists, DoesNotExist"):
        budget({"matchExpressions": [{"key": "app", "operator": "Gt"}]})
