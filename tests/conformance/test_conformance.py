import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.__main__ import main
from tests.conformance.floors import FLOORS
from tests.unit.model.golden import DIRECTORY, cases

NAMES = sorted(path.name.removesuffix(".jsonl.gz") for path in DIRECTORY.glob("*.jsonl.gz"))

# Few cases of each format are enough to see that a wrong expectation is found.
FEW = {"kubelet_admission": 12, "nrt_filter_score": 40, "nrt_lists": 1}


def write(directory: Path, name: str, some: list[dict[str, Any]]) -> Path:
    path = directory / name
    text = "".join(json.dumps(case) + "\n" for case in some)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def few(name: str) -> list[dict[str, Any]]:
    some = [case for _, case in zip(range(FEW.get(name, 100)), cases(name), strict=False)]
    return [case for case in some if "nodes" not in case or compared(case)]


def compared(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The plugin's results that count: on nodes whose NRT its own cache trusts."""
    trusted = {node["name"] for node in case["nodes"] if node.get("fresh", True)}
    return [result for result in case["expect"]["results"] if result["node"] in trusted]


# Each of the 21,551 pods of kubelet_admission is replayed in several ways, at 8 ms of an idle core. Every fifth machine
# has all policies and shapes in it.
SHORT = {"kubelet_admission": 5}


@pytest.mark.parametrize(
    ("name", "every"),
    [(name, SHORT.get(name, 1)) for name in NAMES] + [pytest.param(name, 1, marks=pytest.mark.long) for name in SHORT],
)
def test_the_engine_agrees_with_upstream(
    name: str, every: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, f"{name}.jsonl.gz", list(cases(name))[::every])
    assert main(["--cases", str(tmp_path)]) == 0, capsys.readouterr().out


# Odd machines and nodes: 3 to 7 NUMA nodes of all sizes, some without memory, two sizes of huge pages, zero amounts,
# overhead of nothing, names of policies that mean nothing. Made as the golden files were, by upstream's code.
def test_the_engine_agrees_with_upstream_on_odd_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cases", str(DIRECTORY.parent / "odd")]) == 0, capsys.readouterr().out


def test_every_golden_file_is_there() -> None:
    assert NAMES == [
        "claims",
        "kubelet_admission",
        "kubelet_admission_1_37",
        "nrt_filter_score",
        "nrt_lists",
        "podfingerprint",
        "quantities",
        "selectors",
        "topology_merge",
    ]


def flip_admission(case: dict[str, Any]) -> None:
    pod = case["expect"]["pods"][0]
    pod["admit"] = not pod["admit"]
    pod.setdefault("reason", "TopologyAffinityError")


def refuse_for_another_reason(case: dict[str, Any]) -> None:
    pod = next(pod for pod in case["expect"]["pods"] if not pod["admit"])
    reasons = {"TopologyAffinityError": "UnexpectedAdmissionError", "UnexpectedAdmissionError": "TopologyAffinityError"}
    pod["reason"] = reasons[pod["reason"]]


def move_affinity(case: dict[str, Any]) -> None:
    pod = next(pod for pod in case["expect"]["pods"] if pod["admit"])
    pod["containers"][0]["affinity"] = [7]


def other_message(case: dict[str, Any]) -> None:
    pod = next(pod for pod in case["expect"]["pods"] if "message" in pod)
    pod["message"] += "."


def other_capacity(case: dict[str, Any]) -> None:
    case["expect"]["pods"][0]["nrtBefore"]["zones"][-1]["resources"][0]["capacity"] += "0"


def other_cost(case: dict[str, Any]) -> None:
    case["expect"]["pods"][0]["nrtBefore"]["zones"][-1]["costs"][0]["value"] += 1


def fewer_containers(case: dict[str, Any]) -> None:
    next(pod for pod in case["expect"]["pods"] if pod["admit"])["containers"].pop()


def flip_filter(case: dict[str, Any]) -> None:
    verdict = compared(case)[-1]["filter"]
    verdict["pass"] = not verdict["pass"]


def raise_score(case: dict[str, Any]) -> None:
    compared(case)[0]["scores"]["LeastNUMANodes"] += 1


def other_request(case: dict[str, Any]) -> None:
    requests = next(iter(case["expect"]["effectiveRequests"].values()))
    requests["cpu"] = "31"


def other_limit_of_numa_nodes(case: dict[str, Any]) -> None:
    next(result for result in compared(case) if "config" in result)["config"]["maxNUMANodes"] += 1


def lose_result(case: dict[str, Any]) -> None:
    case["expect"]["results"].remove(compared(case)[-1])


def flip_preferred(case: dict[str, Any]) -> None:
    case["expect"]["hint"]["preferred"] = not case["expect"]["hint"]["preferred"]


def other_fingerprint(case: dict[str, Any]) -> None:
    case["expect"]["fingerprint"] = "pfp0v0010000000000000000"


def other_number(case: dict[str, Any]) -> None:
    case["expect"] = {"value": 1, "milli": 1, "canonical": "x", "asParsed": "x"}


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("kubelet_admission", flip_admission),
        ("kubelet_admission", refuse_for_another_reason),
        ("kubelet_admission", move_affinity),
        ("kubelet_admission", other_message),
        ("kubelet_admission", other_capacity),
        ("kubelet_admission", other_cost),
        ("kubelet_admission", fewer_containers),
        ("nrt_filter_score", flip_filter),
        ("nrt_filter_score", raise_score),
        ("nrt_filter_score", lose_result),
        ("nrt_filter_score", other_request),
        ("nrt_filter_score", other_limit_of_numa_nodes),
        ("nrt_lists", flip_filter),
        ("topology_merge", flip_preferred),
        ("podfingerprint", other_fingerprint),
        ("quantities", other_number),
    ],
)
def test_a_planted_wrong_expectation_is_reported(
    name: str, spoil: Callable[[dict[str, Any]], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = few(name)
    refused = (case for case in some if not all(pod.get("admit", True) for pod in case["expect"].get("pods", ())))
    spoiled = next(refused, some[-1]) if name == "kubelet_admission" else some[-1]
    spoil(spoiled)
    write(tmp_path, f"{name}.jsonl.gz", some)
    assert main(["--cases", str(tmp_path)]) == 1
    assert spoiled["id"] in capsys.readouterr().out


def test_a_file_is_known_by_what_is_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "other-name-2.jsonl", few("quantities"))
    assert main(["--cases", str(tmp_path)]) == 0
    assert "other-name-2.jsonl 100/100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("quantities.jsonl", b""),
        ("quantities.jsonl.gz", b"no gzip"),
        ("quantities.jsonl.gz", gzip.compress(b'{"id": 1', mtime=0)),
        ("quantities.jsonl.gz", gzip.compress(b'{"id": 1}\n' * 99, mtime=0)[:-12]),
        ("quantities.jsonl", b'{"id": "x", "unknown": 1}\n'),
        ("tables.json", b"{}"),
        ("tables.json", b"[]"),
        ("quantities.jsonl", b'{"id": "a", "in": "1", "expect": {"error": "x"}}\n{"id": "b", "in": "1"}\n'),
        ("kubelet.jsonl", b'{"id": "a", "machine": {}, "pods": [{}], "expect": {"pods": [{}]}}\n'),
        ("kubelet.jsonl", b'{"id": "a", "machine": {"policy": "none"}, "pods": [], "expect": {"pods": []}}\n'),
        ("nrt.jsonl", b'{"id": "a", "nodes": [], "pods": [], "expect": {"results": [], "effectiveRequests": {}}}\n'),
        ("README.md", b"no cases at all"),
    ],
)
def test_cases_that_cannot_be_used_are_an_error(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert main(["--cases", str(tmp_path)]) == 2


def test_a_file_that_cannot_be_used_hides_no_disagreement_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.jsonl").write_text("{")
    some = few("quantities")
    other_number(some[3])
    write(tmp_path, "quantities.jsonl", some)
    assert main(["--cases", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "broken.jsonl, line 1 is no JSON" in printed.err
    assert some[3]["id"] in printed.out


@pytest.mark.parametrize("policy", ["restricted", "best-effort"])
@pytest.mark.parametrize("admit", [True, False])
def test_one_flipped_verdict_is_seen_under_policies_that_hide_state(
    policy: str, admit: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_policy = (case for case in cases("kubelet_admission") if case["machine"]["policy"] == policy)
    some = [case for _, case in zip(range(8), of_policy, strict=False)]
    case, pod = next((case, pod) for case in some for pod in case["expect"]["pods"] if pod["admit"] is admit)
    pod["admit"] = not admit
    write(tmp_path, "kubelet.jsonl", some)
    assert main(["--cases", str(tmp_path)]) == 1
    assert case["id"] in capsys.readouterr().out


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert main(["--cases", str(tmp_path / "nowhere")]) == 2


def test_what_upstream_decides_by_rule_has_no_tolerance() -> None:
    exact = {name for name, floor in FLOORS.items() if floor == 1}
    assert {"plugin", "merge", "quantities", "fingerprint", "kubelet single-numa-node", "kubelet none"} <= exact
