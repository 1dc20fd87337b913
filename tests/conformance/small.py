"""Checks of single functions: the merge of hints, pod fingerprints, quantities."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.floors import FLOORS
from tests.conformance.hints import Hint, merge_hints
from tests.conformance.tally import ReportLine
from tests.fingerprints import pod_fingerprint
from webhook.model.policy import NUMAPolicy
from webhook.model.quantity import INT64_MAX, Quantity, QuantityError

Case = Mapping[str, Any]


def check_merges(cases: Sequence[Case]) -> list[ReportLine]:
    """Hints of several providers, merged by one policy."""
    tally = ReportLine("", FLOORS["merge"])
    for case in cases:
        tally.count(case["expect"], _merged(case), case["id"])
    return [tally]


def _merged(case: Case) -> dict[str, Any]:
    providers = [
        {
            resource: None if hints is None else [_allocation(hint) for hint in hints]
            for resource, hints in provider.items()
        }
        for provider in case["providers"]
    ]
    distances = None
    if case.get("options", {}).get("prefer-closest-numa-nodes") == "true":
        distances = {int(node): row for node, row in case["distances"].items()}
    policy = NUMAPolicy.from_kubelet(case["policy"])
    if policy is None:
        return {"policy": "unknown"}
    hint, admitted = merge_hints(policy, case["numaNodes"], providers, distances)
    mask = None if hint.mask is None else list(hint.mask)
    return {"hint": {"mask": mask, "preferred": hint.preferred}, "admit": admitted}


def _allocation(hint: Mapping[str, Any]) -> Hint:
    return Hint(None if hint["mask"] is None else tuple(hint["mask"]), hint["preferred"])


def check_fingerprints(cases: Sequence[Case]) -> list[ReportLine]:
    """Lists of pods and their fingerprint."""
    tally = ReportLine("", FLOORS["fingerprint"])
    for case in cases:
        got = pod_fingerprint((pod["namespace"], pod["name"]) for pod in case["pods"])
        tally.count(case["expect"], {"fingerprint": got}, case["id"])
    return [tally]


def check_quantities(cases: Sequence[Case]) -> list[ReportLine]:
    """One quantity string each."""
    tally = ReportLine("", FLOORS["quantities"])
    for case in cases:
        tally.count(case["expect"], _quantity(case["in"]), f"{case['id']} {case['in']!r}")
    return [tally]


def _quantity(text: str) -> dict[str, Any]:
    try:
        quantity = Quantity.parse(text)
    except QuantityError as error:
        return {"error": str(error)}
    return {
        "value": _int64(quantity.value()),
        "milli": _int64(quantity.milli()),
        "canonical": quantity.canonical(),
        "asParsed": quantity.as_parsed(),
    }


def _int64(number: int) -> int | None:
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None
