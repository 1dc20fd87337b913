"""The check of calls recorded from the plugin's own unit tests: one node, one pod, Filter or one score."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.floors import FLOORS
from tests.conformance.plugin import NO_INTENT, add_node, failure
from tests.conformance.tally import ReportLine
from webhook.engine import plugin
from webhook.engine.plugin import Strategy
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import Pod


def check(cases: Sequence[Mapping[str, Any]]) -> list[ReportLine]:
    """One comparison for each recorded call."""
    tally = ReportLine("", FLOORS["plugin"])
    for number, case in enumerate(cases):
        if not case["fresh"]:  # the plugin's own cache distrusts the NRT, and fails the node unseen
            continue
        expected, got = (_filter if case["kind"] == "filter" else _score)(case, *_load(case))
        tally.count(expected, got, f"#{number} {case['test']}")
    return [tally]


def _load(case: Mapping[str, Any]) -> tuple[Snapshot, PodRequest]:
    node, nrt = case["node"], case["nrt"]
    name = node["metadata"]["name"]
    if nrt is not None:
        # A recorded NRT belongs to the recorded node, whatever the test called it.
        nrt = {**nrt, "metadata": {**nrt.get("metadata", {}), "name": name}}
    state = ClusterState()
    add_node(state, name, node["status"].get("allocatable", {}), nrt)
    snapshot = Snapshot(state.node_arrays())
    return snapshot, PodRequest.of(Pod.from_object(case["pod"]), NO_INTENT, snapshot.node_arrays.resources)


def _filter(case: Mapping[str, Any], snapshot: Snapshot, request: PodRequest) -> tuple[object, object]:
    fit = plugin.filter_nodes(snapshot, request)
    passes = bool(fit.fits[0])
    reasons = [] if passes else [failure(snapshot.node_arrays, request, fit, 0)]
    code = "Success" if passes else "Unschedulable"
    return (case["pass"], case["code"], case["reasons"]), (passes, code, reasons)


def _score(case: Mapping[str, Any], snapshot: Snapshot, request: PodRequest) -> tuple[object, object]:
    name = case["strategy"].rpartition(".")[2].removesuffix("ScoreStrategy")
    strategy = Strategy(name[:1].upper() + name[1:].removesuffix("Strategy"))
    score = plugin.score_nodes(snapshot, request, strategy, case["weights"] or {})
    return (case["ok"], case["score"]), (True, int(score[0]))
