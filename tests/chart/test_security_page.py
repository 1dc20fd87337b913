"""The tests that docs/security.md names exist, and it lists every right that the chart grants."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.helm import Helm, Rendered

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
# | core | `pods`, `pods/status` | patch | why |
RIGHT = re.compile(r"^\| ([a-z0-9., -]+) \| ((?:`[a-z/*]+`(?:, )?)+) \| ([a-z, ]+) \| (.+) \|$", re.MULTILINE)
ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
WITH_ALL_RIGHTS = {
    "evictStuck": True,
    "deleteRejectedAfterSeconds": 1,
    "repair": "Gang",
    "autoscaler": "ClusterAutoscaler",
    "provisioningClass": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
    "advanced": {"grovePodGangs": True, "kueueAdmissionCheck": True, "koordinatorReservations": True},
}
"""Each gives the service rights that it has not by default."""
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_test_that_is_named_exists() -> None:
    named = set(TEST.findall(PAGE))
    assert len(named) > 10
    for file, test in named:
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), (file, test)


def _rows_of_attackers() -> Iterator[str]:
    for table in re.findall(r"^\| (?:he|it|they) can(?:not)? \| test \|\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE):
        yield from table.splitlines()


def test_every_line_about_an_attacker_names_its_test() -> None:
    rows = list(_rows_of_attackers())
    assert len(rows) > 10
    assert [row for row in rows if not TEST.search(row)] == []


def test_no_cell_is_longer_than_one_reads_at_a_glance() -> None:
    cells = [cell for row in ROW.findall(PAGE) for cell in row.split("|")]
    assert [cell for cell in cells if len(cell) > 200] == []


@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
def test_every_right_of_the_chart_stands_there_with_its_reason_and_no_other(helm: Helm, kind: str) -> None:
    roles = helm.template({"settings": WITH_ALL_RIGHTS, "metrics": {"secure": True}}).of(kind)
    (role,) = (each for each in roles if each["metadata"]["name"] == "tw-topology-webhook")  # the others are for users
    assert _stated("In the release's namespace" if kind == "Role" else "Cluster-wide") == set(map(_rule, role["rules"]))


def test_every_right_of_the_job_before_an_uninstall_stands_there_and_no_other(rendered: Rendered) -> None:
    (role,) = (each for each in rendered.hooks if each["kind"] == "ClusterRole")
    assert _stated("While the release is uninstalled") == set(map(_rule, role["rules"]))


def test_every_right_of_the_pod_of_helm_test_stands_there_and_no_other(rendered: Rendered) -> None:
    rules = [rule for each in rendered.tests for rule in each.get("rules", ())]
    assert _stated("While `helm test` runs") == set(map(_rule, rules))


def _stated(title: str) -> set["Right"]:
    """The rights in the section of this title."""
    section = PAGE.partition(f"### {title}\n")[2].partition("\n### ")[0]
    return {_right(groups, resources, verbs) for groups, resources, verbs, _ in RIGHT.findall(section)}


Right = tuple[frozenset[str], frozenset[str], frozenset[str]]


def _right(groups: str, resources: str, verbs: str) -> Right:
    names = frozenset("" if group == "core" else group for group in groups.split(", "))
    return names, frozenset(re.findall(r"`(.+?)`", resources)), frozenset(verbs.split(", "))


def _rule(rule: dict[str, Any]) -> Right:
    return frozenset(rule["apiGroups"]), frozenset(rule["resources"]), frozenset(rule["verbs"])
