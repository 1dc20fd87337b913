"""The check of the plugin fidelity: Filter and the four scores on every node of a case."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.conformance.floors import FLOORS
from tests.conformance.tally import ReportLine
from webhook.engine import plugin
from webhook.engine.plugin import Strategy
from webhook.engine.plugin.filter import parts
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import ContainerKind, Pod
from webhook.formats.nrt import NodeTopology
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import amount

NO_INTENT: Final = NUMAIntent(policy=None, exclusive=None, managed=False)

_CANNOT_ALIGN: Final = {
    ContainerKind.INIT: "cannot align init container",
    ContainerKind.SIDECAR: "cannot align sidecar container",
    ContainerKind.APP: "cannot align container",
}


def check(cases: Sequence[Mapping[str, Any]]) -> list[ReportLine]:
    """One comparison for each pod and node, of everything that the plugin returned."""
    tally = ReportLine("", FLOORS["plugin"])
    requests = ReportLine("  effective requests", FLOORS["plugin"])
    for case in map(_trusted, cases):
        state = ClusterState()
        for node in case["nodes"]:
            add_node(state, node["name"], node["allocatable"], node.get("nrt"))
        snapshot = Snapshot(state.node_arrays())
        wanted = iter(case["expect"]["results"])
        for raw in case["pods"]:
            pod = Pod.from_object(raw)
            request = PodRequest.of(pod, NO_INTENT, snapshot.node_arrays.resources)
            expected = case["expect"]["effectiveRequests"][pod.key]
            requests.count(
                {name: amount(name, quantity) for name, quantity in expected.items()},
                dict(parts(request, Scope.POD)[0].amounts),
                f"{case['id']} {pod.key}",
            )
            for result in results(snapshot, pod, request, case):
                expected = next(wanted, None)
                place = f"{case['id']} {result['pod']} on {result['node']}"
                if expected is None or not tally.count(expected, result, place):
                    _shorten(tally, place, expected, result)
        for expected in wanted:
            tally.count(expected, None, f"{case['id']} {expected['pod']} on {expected['node']}")
    return [tally, requests]


def _trusted(case: Mapping[str, Any]) -> Mapping[str, Any]:
    """The case without the nodes whose NRT the plugin's own cache distrusts. It fails these without a look."""
    nodes = [node for node in case["nodes"] if node.get("fresh", True)]
    names = {node["name"] for node in nodes}
    kept = [result for result in case["expect"]["results"] if result["node"] in names]
    return {**case, "nodes": nodes, "expect": {**case["expect"], "results": kept}}


def _shorten(tally: ReportLine, place: str, expected: Mapping[str, Any] | None, got: Mapping[str, Any]) -> None:
    """Keep only what differs."""
    if expected is None:
        tally.count(None, got, place)
        return
    differing = [key for key in {**expected, **got} if expected.get(key) != got.get(key)]
    wanted = {key: expected.get(key) for key in differing}
    tally.disagreements[-1] = f"{place}: expected {wanted}, got { {key: got.get(key) for key in differing} }"


def add_node(state: ClusterState, name: str, allocatable: Mapping[str, Any], nrt: Mapping[str, Any] | None) -> None:
    """A ready node and its NRT."""
    state.upsert_node(Node.from_object({"metadata": {"name": name}, "status": {"allocatable": allocatable}}))
    if nrt is not None:
        state.upsert_topology(NodeTopology.from_object(nrt))


def results(snapshot: Snapshot, pod: Pod, request: PodRequest, case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The engine's results for one pod on every node of the case, in the form of the golden data."""
    node_arrays = snapshot.node_arrays
    fit = plugin.filter_nodes(snapshot, request)
    scores = {
        str(strategy): plugin.score_nodes(snapshot, request, strategy, case.get("weights", {})) for strategy in Strategy
    }
    found = []
    for node in case["nodes"]:
        index = node_arrays.index[node["name"]]
        passes = bool(fit.fits[index])
        result: dict[str, Any] = {"pod": pod.key, "node": node["name"], "qos": str(pod.qos)}
        if "nrt" in node:
            result["config"] = _config(node_arrays, index)
        result["filter"] = {
            "pass": passes,
            "code": "Success" if passes else "Unschedulable",
            "reasons": [] if passes else [failure(node_arrays, request, fit, index)],
        }
        result["scores"] = {name: int(score[index]) for name, score in scores.items()}
        found.append(result)
    return found


def _config(node_arrays: NodeArrays, index: int) -> dict[str, Any]:
    return {
        "policy": NUMAPolicy(int(node_arrays.plugin_policy[index])).kubelet,
        "scope": Scope(int(node_arrays.plugin_scope[index])).kubelet,
        "maxNUMANodes": int(node_arrays.max_numa_nodes[index]),
    }


def failure(node_arrays: NodeArrays, request: PodRequest, fit: plugin.FilterFit, index: int) -> str:
    """Upstream's message for a failed filter."""
    if node_arrays.plugin_scope[index] == Scope.POD:
        return "cannot align pod"
    return _CANNOT_ALIGN[request.kinds[fit.failed[index]]]
