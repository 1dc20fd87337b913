"""Worst cases: the cost of one object that the API server accepts, stored or as a dry run.

- ms: the longest time that the event loop is blocked, from the object's bytes to the answer: CPU time, best of three;
- peak_mib: the peak of memory meanwhile, by tracemalloc in a run of its own.

The cluster has 5,000 nodes with 8 NUMA nodes, with every NUMA policy in turn. The limits are 100 ms and 64 MiB.
"""

import re
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from gc import collect
from time import thread_time
from typing import Any, NamedTuple

from structlog.testing import capture_logs

from tests.bench.worst_cluster import ASKS_FOR_A_RACK
from tests.bench.worst_gangs import gangs
from tests.bench.worst_nodes import cluster_objects
from tests.bench.worst_objects import SINGLE, Worst, container, pod
from tests.bench.worst_pods import pods
from tests.bench.worst_site import Site, gang_of
from tests.bench.worst_workloads import workloads
from webhook.codec import dumps, dumps_plain
from webhook.model.raw import Draft

MOST_MS, MOST_MIB = 100.0, 64.0


class Case(NamedTuple):
    """One object that arrives in one of its ways."""

    what: str
    body: bytes
    run: Callable[[Site], Callable[[], None] | None]
    """Returns what undoes it, which does not count."""


FAMILIES: Mapping[str, Callable[[], Iterator[Worst]]] = {
    "pods": pods,
    "workloads": workloads,
    "gangs": gangs,
    "nodes": cluster_objects,
}


def cases(families: Iterable[str] = FAMILIES) -> Iterator[Case]:
    """All cases, one after the other: together they would take more memory than what is measured."""
    for family in families:
        for worst in FAMILIES[family]():
            for way in worst.ways:
                yield _case(worst, way)


def _case(worst: Worst, way: str) -> Case:
    what = f"{way}: {worst.what}"
    raw = worst.raw
    match way:
        case "mutate":
            return _reviewed(what, raw, "/mutate/pods", "CREATE")
        case "validate":
            return _reviewed(what, raw, "/validate/pods", "UPDATE")
        case "validate-node":
            return _reviewed(what, {"kind": "Node", **raw}, "/validate/nodes", "UPDATE")
        case "mark":
            return _reviewed(what, raw, "/mutate/workloads", "CREATE")
        case "workload":
            return _reviewed(what, raw, "/validate/workloads", "CREATE")
        case "gated":
            held = {**raw, "spec": {**raw["spec"], "schedulingGates": [{"name": "topology-webhook.dev/placement"}]}}
            body = _bytes(held)
            return Case(what, body, lambda site: site.gated(body))
        case "gang":
            body = _bytes(raw)
            gang = gang_of(body)
            return Case(what, body, lambda site: site.place_gang(gang))
        case "bind":
            body = _bytes(raw)
            return Case(what, body, lambda site: site.bind(body))
        case "owner":
            body, owned = _bytes(raw), _owned(raw)
            return Case(what, body, lambda site: site.owner(body, owned))
        case "feed":
            body = _bytes(raw)
            return Case(what, body, lambda site: site.feed("Pod", body))
        case "arrival":
            body = _bytes(raw)

            def arrive(site: Site) -> Callable[[], None]:
                forget = site.feed("Pod", body)
                binding_to = pod()
                binding_to["metadata"]["name"] = "next"  # not the pod that is bound there already
                site.bind(dumps(binding_to))
                return forget

            return Case(what, body, arrive)
        case "decide" | "racks":
            kind = worst.ways[0]
            body = _bytes(raw)
            asked = pod() if way == "decide" else pod(SINGLE | ASKS_FOR_A_RACK)
            review = _review(asked, "CREATE")

            def then(site: Site) -> Callable[[], None]:
                forget = site.feed(kind, body)
                site.review("/mutate/pods", review)
                return forget

            return Case(what, body, then)
    body = _bytes(raw)
    return Case(what, body, lambda site: site.feed(way, body))


def _reviewed(what: str, raw: Draft, path: str, operation: str) -> Case:
    body = _review(raw, operation)

    def run(site: Site) -> None:
        site.review(path, body)

    return Case(what, body, run)


def _review(raw: Draft, operation: str) -> bytes:
    request = {
        "uid": "u",
        "operation": operation,
        "kind": {"kind": raw["kind"]},
        "namespace": "ns",
        "userInfo": {"username": "tenant"},
        "dryRun": True,
        "object": raw,
    }
    if operation == "UPDATE":
        request["oldObject"] = {"metadata": {"name": "p"}}
    return _bytes({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def _bytes(raw: Draft) -> bytes:
    """The object as JSON. `<900 lists>` and `<900 objects>` stand for nesting that no encoder writes."""
    body = dumps_plain(raw)
    for text in re.findall(rb'"<\d+ \w+>"', body):
        depth, form = text.strip(b'"<>').split()
        opened, closed = (b"[", b"]") if form == b"lists" else (b'{"a":', b"}")
        body = body.replace(text, opened * int(depth) + b"0" + closed * int(depth))
    return body


def _owned(owner: Draft) -> Draft:
    owned = pod(SINGLE | {"topology-webhook.dev/inherit": "true"}, [container(cpu="1", memory="1Gi")])
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "w", "uid": "w", "controller": True}
    owned["metadata"] |= {"name": "w-0-0-abcde", "ownerReferences": [reference]}
    return owned


def milliseconds(site: Site, case: Case, runs: int = 3) -> float:
    """The best of several runs."""
    best = float("inf")
    for _ in range(runs):
        start = thread_time()
        undo = case.run(site)
        best = min(best, (thread_time() - start) * 1000)
        if undo is not None:
            undo()
        if best > 1000:
            break
    return best


def peak_mib(site: Site, case: Case) -> float:
    """The peak of a run above the memory in use before it."""
    collect()
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        undo = case.run(site)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    if undo is not None:
        undo()
    return peak / 2**20


def lines() -> Iterator[dict[str, Any]]:
    """Every case."""
    site = Site()
    for case in cases():
        # What the service logs of them would stand between the lines.
        with capture_logs():
            ms = milliseconds(site, case)
            peak = peak_mib(site, case)
        yield {
            "bench": "worst",
            "what": case.what,
            "bytes": len(case.body),
            "ms": round(ms, 2),
            "peak_mib": round(peak, 2),
        }


def text(line: dict[str, Any]) -> str:
    """A measurement as text."""
    return f"{line['what']:<80} {line['bytes']:>9} bytes {line['ms']:>9.1f} ms {line['peak_mib']:>8.1f} MiB"
