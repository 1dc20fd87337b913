"""Random claims and selectors follow from their seed and cover what counts, and each allocator is of its version."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.toolchain import parse_version
from tests.cluster.versions import pinned, versions
from tests.conformance.__main__ import main
from tests.conformance.allocations import (
    MODULES,
    UPSTREAM,
    VERSIONS,
    check,
    check_near,
    check_selectors,
    find_allocator,
)
from tests.conformance.random_claims import OUTSIDE, draw_cases
from tests.conformance.random_selectors import draw_selectors
from tests.unit.model.golden import cases

if TYPE_CHECKING:
    from collections.abc import Iterable


def test_a_seed_repeats_and_a_case_is_the_same_beside_any_others() -> None:
    for draw in (draw_cases, draw_selectors):
        assert list(draw(7, 6)) == list(draw(7, 6))
        assert list(draw(7, 6))[:2] == list(draw(7, 2))
        assert list(draw(7, 6)) != list(draw(8, 6))


def test_all_that_decides_an_allocation_is_drawn() -> None:
    drawn = list(draw_cases(1, 300))
    assert {name for case in drawn for name in case["outside"]} == set(OUTSIDE)
    slices = [one["spec"] for case in drawn for one in case["slices"]]
    keys = {key for one in slices for key in one}
    assert {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection", "sharedCounters"} <= keys
    devices = {key for one in slices for device in one.get("devices", ()) for key in device}
    assert {"taints", "consumesCounters", "allowMultipleAllocations", "bindingConditions", "nodeSelector"} <= devices
    claims = [claim for case in drawn for claim in case["claims"]]
    assert any("status" in claim for claim in claims)
    requests = [one for claim in claims for one in claim["spec"]["devices"]["requests"]]
    exact = [part for one in requests for part in one.get("firstAvailable", [one.get("exactly")])]
    assert {one["allocationMode"] for one in exact} == {"ExactCount", "All"}
    assert {"selectors", "tolerations", "adminAccess", "capacity"} <= {key for one in exact for key in one}
    constraints = [one for claim in claims for one in claim["spec"]["devices"].get("constraints", ())]
    assert {"matchAttribute", "distinctAttribute", "requests"} == {key for one in constraints for key in one}
    assert any(case["rules"] for case in drawn)


def answers(some: Iterable[dict[str, Any]], version: str) -> Counter[str]:
    return Counter(next(iter(answer)) for case in some for answer in case["expect"][version].values())


@pytest.mark.parametrize("version", VERSIONS)
def test_of_the_golden_pods_with_claims_many_fit_and_many_do_not(version: str) -> None:
    counted = answers(cases("claims"), version)
    assert min(counted["claims"], counted["refused"]) > counted.total() / 4
    assert counted["error"] > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_golden_selectors_select_leave_out_and_fail(version: str) -> None:
    counted = Counter(answer[:2] for case in cases("selectors") for answer in case["expect"][version])
    assert min(counted.values()) > counted.total() / 6
    assert counted.keys() == {"ye", "no", "er"}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_allocator_is_of_the_version_that_its_folder_is_called(version: str) -> None:
    assert version in versions()
    assert parse_version(pinned(UPSTREAM, MODULES / version))[1] == parse_version(version)[1]
    assert (MODULES / version / "main.go").readlink().as_posix() == "../main.go"


# A seed of its own: the golden files have seed 0.
@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("what", [["--number", "200"], ["--number", "600", "--selectors"]])
def test_the_allocator_itself_agrees(version: str, what: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "--seed", "1", "--kubernetes", version, *what]) == 0, capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_chosen_near_a_numa_node_is_what_the_allocator_gives_if_no_other_device_is_free(version: str) -> None:
    tally = check_near(list(draw_cases(2, 400)), version, find_allocator(version, print))
    assert tally.total > 200
    assert tally.passes, tally.lines(5)


def test_a_golden_case_is_what_its_seed_draws_now() -> None:
    for name, draw in (("claims", draw_cases), ("selectors", draw_selectors)):
        golden = [{key: value for key, value in case.items() if key != "expect"} for case in islice(cases(name), 40)]
        drawn = {case["id"]: case for case in islice(draw(0, 60), 60)}
        assert all(drawn[case["id"]] == case for case in golden), name


@pytest.mark.parametrize(
    ("kind", "spoiled", "line"),
    [
        ("claims", {"refused": "no"}, "nodes that cannot are not chosen 0/1"),
        ("claims", {"claims": [[{"request": "r0", "device": "a/b/c"}]]}, "the same devices 0/1"),
        ("refused", {"claims": [[]]}, "nodes that can allocate are not excluded 0/1"),
    ],
)
def test_a_planted_wrong_answer_about_claims_is_reported(kind: str, spoiled: dict[str, Any], line: str) -> None:
    """kind: what upstream answers."""
    version = VERSIONS[-1]
    simple = (case for case in cases("claims") if not case["outside"] and len(case["nodes"]) == 1)
    case = next(case for case in simple if kind in case["expect"][version]["n0"])
    assert all(tally.passes for tally in check([{**case, "expect": {version: case["expect"][version]}}]))
    found = check([{**case, "expect": {version: {"n0": spoiled}}}])
    assert line in " ".join(each for tally in found for each in tally.lines(0))


def test_a_planted_wrong_answer_about_a_selector_is_reported() -> None:
    version = VERSIONS[-1]
    case = next(case for case in cases("selectors") if case["plain"] and "yes" in case["expect"][version])
    other = ["no" if answer == "yes" else answer for answer in case["expect"][version]]
    assert not check_selectors([{**case, "expect": {version: other}}])[0].passes
