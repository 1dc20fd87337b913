"""The largest objects that a tenant, a kubelet or an exporter may write, with each field at its maximum.

Each function yields (name, way of arrival, object). Sizes are up to the API server's limit: requests of 3 MiB.
"""

from typing import Any, NamedTuple

from tests.bench.worst_cluster import ASKS_FOR_A_RACK
from webhook.model.names import NUMA_TOPOLOGY_SPEC
from webhook.model.raw import Draft

SINGLE = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
RESTRICTED = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "Restricted"}'}
BEST_EFFORT = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "BestEffort"}'}
NO_POLICY = {NUMA_TOPOLOGY_SPEC: "{}"}


class Worst(NamedTuple):
    """An object and the ways in which it arrives."""

    what: str
    ways: tuple[str, ...]
    """Of: mutate, validate, gated, bind, feed (pods); gang (a list of gated pods); mark, workload, owner; Node, NRT, a
    group of Topologies."""
    raw: Draft


POD_WAYS = ("mutate", "gated", "bind", "feed")


def container(name: str = "c", **requests: str) -> Draft:
    return {"name": name, "resources": {"requests": dict(requests), "limits": dict(requests)}}


def pod(annotations: dict[str, str] | None = None, containers: list[Draft] | None = None, **spec: Any) -> Draft:
    """A pod, by default with one Guaranteed container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "1",
            "annotations": dict(SINGLE if annotations is None else annotations),
        },
        "spec": {"containers": containers or [container(cpu="4", memory="8Gi")], **spec},
    }


def template(annotations: dict[str, str] | None = None, **spec: Any) -> Draft:
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": [container(cpu="1", memory="1Gi")], **spec},
    }


def workload(api_version: str, kind: str, spec: Draft, annotations: dict[str, str] | None = None) -> Draft:
    metadata = {
        "name": "w",
        "namespace": "ns",
        "uid": "w",
        "annotations": dict(ASKS_FOR_A_RACK if annotations is None else annotations),
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def required(*terms: Draft) -> Draft:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def preferred(*terms: Draft) -> Draft:
    return {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1 + number % 100, "preference": term} for number, term in enumerate(terms)
            ]
        }
    }


def expression(key: str, operator: str, *values: str) -> Draft:
    return {"key": key, "operator": operator, "values": list(values)}


def nested(depth: int, inside: str = "0") -> str:
    return "[" * depth + inside + "]" * depth


def apart(*selectors: list[Draft]) -> Draft:
    """A pod's affinity that keeps pods with these label requirements off its node."""
    terms = [{"labelSelector": {"matchExpressions": one}, "topologyKey": "kubernetes.io/hostname"} for one in selectors]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
