"""A cluster and workloads in short form, and the answer of `review` for them.

    bed = Bed({"zone-a": {"rack-1": [4, 4], "rack-2": [2]}}, "zone", "rack")
    bed.review(job(6, required("rack"))).per("rack")  # {"zone-a/rack-1": 6}

Nodes are n0, n1, .. in reading order; each has so many free CPUs, or amounts of several resources.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from tests.unit.cli.conftest import run_review
from webhook.model.raw import Draft

GPU = "nvidia.com/gpu"
TOPOLOGY = "cluster-topology"
HOST = "kubernetes.io/hostname"
_NAMESPACE = "team"
Asked = Mapping[str, str]
"""Annotations."""
Amounts = int | Mapping[str, int | str]
"""Whole CPUs, or an amount for each resource."""
Tree = Mapping[str, "Tree"] | Sequence[Amounts]
"""Label value -> what is below it, down to what is free on each node."""


def amounts_of(amounts: Amounts) -> dict[str, str]:
    """An amount for each resource."""
    whole = {"cpu": amounts} if isinstance(amounts, int) else amounts
    return {name: str(amount) for name, amount in whole.items()}


@dataclass(frozen=True)
class ReviewAnswer:
    """The answer of `review` for one workload."""

    entry: Draft
    paths: Mapping[str, tuple[str, ...]]
    """Node -> its values, coarse to fine, itself last."""
    levels: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Allow, wait or deny."""
        return str(self.entry["verdict"])

    @property
    def message(self) -> str:
        """The reason."""
        return str(self.entry["message"])

    @property
    def group(self) -> Draft:
        """The group's JSON."""
        group: Draft = self.entry["group"]
        return group

    @property
    def nodes(self) -> dict[str, str]:
        """Pod -> node, in order of rank."""
        return {pod["name"]: pod["node"] for pod in self.group["pods"]} if "group" in self.entry else {}

    def per(self, level: str, *prefixes: str) -> dict[str, int]:
        """Pods per domain of a level ("node": per node). prefixes: only of pods whose names begin so."""
        nodes = [node for pod, node in self.nodes.items() if not prefixes or pod.startswith(prefixes)]
        return dict(Counter(self._domain(node, level) for node in nodes))

    def domain(self, level: str, pod: str) -> str:
        """The domain of a level that holds a pod."""
        return self._domain(self.nodes[pod], level)

    def segments(self, level: str, size: int, *prefixes: str) -> list[str]:
        """Segments of this many pods, each within one domain."""
        pods = [pod for pod in self.nodes if not prefixes or pod.startswith(prefixes)]
        found: list[str] = []
        for start in range(0, len(pods), size):
            domains = {self.domain(level, pod) for pod in pods[start : start + size]}
            assert len(domains) == 1, (pods[start : start + size], domains)
            found += domains
        return found

    def _domain(self, node: str, level: str) -> str:
        return node if level == "node" else "/".join(self.paths[node][: self.levels.index(level) + 1])


class Bed:
    """A cluster under one topology."""

    def __init__(self, tree: Tree, *levels: str) -> None:
        """tree: label values, coarse to fine, down to lists of free amounts; an empty value is a missing label.

        The level "hostname" is the node itself.
        """
        self.levels = levels
        self.paths: dict[str, tuple[str, ...]] = {}
        self._free: dict[str, Amounts] = {}
        for number, (path, amounts) in enumerate(_leaves(tree)):
            self.paths[f"n{number}"] = (*path, f"n{number}")
            self._free[f"n{number}"] = amounts
        self._others: list[Draft] = []
        self._changes: dict[str, Draft] = {}

    def changed(self, node: str, **changes: Draft) -> Self:
        """The same cluster with changed fields in a Node: `metadata`, `spec` and `status` are merged one level deep."""
        self._changes[node] = changes
        return self

    def with_pod(self, name: str, node: str, takes: Amounts, owner: tuple[str, str] | None = None) -> Self:
        """The same cluster with a pod on a node. owner: kind and name of its controller."""
        requests = amounts_of(takes)
        metadata: Draft = {"name": name, "namespace": _NAMESPACE}
        if owner is not None:
            kind, of = owner
            reference = {"apiVersion": "batch/v1", "kind": kind, "name": of, "uid": "u", "controller": True}
            metadata["ownerReferences"] = [reference]
        spec = {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]}
        self._others.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return self

    def with_answer(self, answer: ReviewAnswer, takes: Amounts = 1) -> Self:
        """The same cluster, where the pods of an answer run."""
        for pod, node in answer.nodes.items():
            self.with_pod(pod, node, takes)
        return self

    def review(self, workload: Draft) -> ReviewAnswer:
        """The answer for one object."""
        (answer,) = self.review_all([workload])
        return answer

    def review_all(self, workloads: Iterable[Draft]) -> list[ReviewAnswer]:
        """The answers for objects that belong together, such as bare pods of one group."""
        with TemporaryDirectory() as folder:
            cluster, objects = Path(folder, "cluster.json"), Path(folder, "objects.json")
            cluster.write_text("\n".join(map(json.dumps, self._cluster())))
            objects.write_text("\n".join(map(json.dumps, workloads)))
            outcome = run_review("-f", objects, "-o", "json", cluster=cluster)
        assert outcome.code in {0, 1}, outcome.stderr
        return [ReviewAnswer(entry, self.paths, self.levels) for entry in outcome.json]

    def _cluster(self) -> list[Draft]:
        topology = {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": TOPOLOGY},
            "spec": {"levels": [{"nodeLabel": _label(level)} for level in self.levels]},
        }
        return [topology, *map(self._node, self._free), *self._others]

    def _node(self, name: str) -> Draft:
        values = zip(map(_label, self.levels), self.paths[name], strict=False)
        labels = {label: value for label, value in values if value} | {HOST: name}
        ready = [{"type": "Ready", "status": "True"}]
        allocatable = {"memory": "64Gi", "pods": "110"} | amounts_of(self._free[name])
        node: Draft = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"allocatable": allocatable, "conditions": ready},
        }
        for field, change in self._changes.get(name, {}).items():
            node[field] = node[field] | change
        return node


def _leaves(tree: Tree, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Amounts]]:
    if isinstance(tree, Mapping):
        for value, below in tree.items():
            yield from _leaves(below, (*path, value))
    else:
        yield from ((path, amounts) for amounts in tree)


def _label(level: str) -> str:
    return HOST if level == "hostname" else f"example.com/{level}"


NOTHING: Asked = {}


def required(level: str) -> dict[str, str]:
    """Require one domain of a level for all pods."""
    return {"kai.scheduler/topology": TOPOLOGY, "kai.scheduler/topology-required-placement": level}


def preferred(level: str) -> dict[str, str]:
    """Prefer one domain of a level for all pods."""
    return {"kai.scheduler/topology": TOPOLOGY, "kai.scheduler/topology-preferred-placement": level}


def segments(size: int | str | None, required_level: str = "", preferred_level: str = "") -> dict[str, str]:
    """Segments of so many pods, each within one domain. size: for several layers a list, as is the level."""
    wishes = {
        "kai.scheduler/topology": TOPOLOGY,
        "kai.scheduler/segment-size": "" if size is None else str(size),
        "kai.scheduler/segment-topology-required-placement": required_level,
        "kai.scheduler/segment-topology-preferred-placement": preferred_level,
    }
    return {key: text for key, text in wishes.items() if text}


def minimum(pods: int) -> dict[str, str]:
    """The number of pods that start together."""
    return {"kai.scheduler/batch-min-member": str(pods)}


def template(asked: Asked = NOTHING, takes: Amounts = 1) -> Draft:
    """A pod template."""
    resources = {"requests": amounts_of(takes), "limits": amounts_of(takes)}
    containers = [{"name": "main", "image": "i", "resources": resources}]
    return {"metadata": {"annotations": dict(asked)}, "spec": {"containers": containers}}


def workload(kind: str, api_version: str, spec: Draft, asked: Asked = NOTHING, name: str = "w") -> Draft:
    """An object of any kind."""
    metadata = {"name": name, "namespace": _NAMESPACE, "annotations": dict(asked)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def job(pods: int, asked: Asked = NOTHING, takes: Amounts = 1, on_template: Asked = NOTHING, name: str = "w") -> Draft:
    """A Job with this parallelism."""
    spec = {"parallelism": pods, "completions": pods, "template": template(on_template, takes)}
    return workload("Job", "batch/v1", spec, asked, name)


def job_set(jobs: Mapping[str, tuple[int, int, Draft]], asked: Asked = NOTHING) -> Draft:
    """A JobSet; jobs: name -> replicas, pods of each, template."""
    replicated = [
        {
            "name": name,
            "replicas": replicas,
            "template": {"spec": {"parallelism": pods, "completions": pods, "template": below}},
        }
        for name, (replicas, pods, below) in jobs.items()
    ]
    return workload("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": replicated}, asked)


def training(kind: str, asked: Asked = NOTHING, minimum_pods: int | None = None, **types: tuple[int, Draft]) -> Draft:
    """One of Kubeflow's jobs; types: name -> replicas, template."""
    field = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}[kind]
    spec: Draft = {field: {name: {"replicas": pods, "template": below} for name, (pods, below) in types.items()}}
    if minimum_pods is not None:
        spec["runPolicy"] = {"schedulingPolicy": {"minAvailable": minimum_pods}}
    return workload(kind, "kubeflow.org/v2beta1" if kind == "MPIJob" else "kubeflow.org/v1", spec, asked)


def leader_worker_set(
    replicas: int,
    size: int,
    worker: Draft,
    asked: Asked = NOTHING,
    leader: Draft | None = None,
    policy: Mapping[str, int | str] | None = None,
) -> Draft:
    """A LeaderWorkerSet; policy: its subGroupPolicy."""
    below: Draft = {"size": size, "workerTemplate": worker}
    if policy is not None:
        below["subGroupPolicy"] = policy
    if leader is not None:
        below["leaderTemplate"] = leader
    spec = {"replicas": replicas, "leaderWorkerTemplate": below}
    return workload("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", spec, asked)
