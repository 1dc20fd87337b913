"""Odd manifests, by mistake or malice. Both `review` and the service on a real API server must answer them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tests.builders import pods, workloads

if TYPE_CHECKING:
    from webhook.model.raw import Draft

SPEC: Final = "scheduling.koordinator.sh/numa-topology-spec"
SINGLE: Final = {SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
LEVEL: Final = "kai.scheduler/topology-required-placement"
RACKS: Final = {"kai.scheduler/topology": "cluster", LEVEL: "rack"}
INHERIT: Final = "topology-webhook.dev/inherit"
MIN_MEMBER: Final = "topology-webhook.dev/min-member"
SEGMENT: Final = "kai.scheduler/segment-size"
SEGMENT_LEVEL: Final = "kai.scheduler/segment-topology-required-placement"


def amounts(cpu: Any = "4", memory: Any = "1Gi") -> Draft:
    """Resources of a Guaranteed container."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


def pod(
    annotations: Any = SINGLE, *, metadata: Draft | None = None, container: Draft | None = None, **spec: Any
) -> Draft:
    """A pod `p`."""
    own = {"annotations": annotations, **(metadata or {})}
    how = {"containers": [pods.guaranteed(cpu=4, **(container or {}))], **spec}
    return pods.pod(namespace="", metadata=own, **how)


def job(annotations: Any = SINGLE, template: Any = None, **spec: Any) -> Draft:
    """A Job `j`."""
    below = {"spec": {**pod()["spec"], "restartPolicy": "Never"}} if template is None else template
    return workloads.workload(
        kind="Job", name="j", metadata={"annotations": annotations}, spec={"template": below, **spec}
    )


def deployment(annotations: Any = SINGLE, **spec: Any) -> Draft:
    """A Deployment `d`."""
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pod()["spec"]}
    own = {"selector": {"matchLabels": {"app": "d"}}, "template": template, **spec}
    return workloads.workload(kind="Deployment", name="d", metadata={"annotations": annotations}, spec=own)


def without(raw: Draft, *path: str) -> Draft:
    """The object without this field."""
    key, *below = path
    if not below:
        return {name: value for name, value in raw.items() if name != key}
    return {**raw, key: without(raw[key], *below)}


def many(*raws: Draft) -> str:
    """A file with these documents. JSON is YAML."""
    return "\n---\n".join(map(json.dumps, raws))


def policy(value: Any) -> Draft:
    """The NUMA annotation with this policy."""
    return {SPEC: json.dumps({"numaTopologyPolicy": value})}


OWNER: Final = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "11111111-1111-4111-8111-111111111111"}
MARKED: Final = job(template={"metadata": {"annotations": {INHERIT: "true"}}, **job()["spec"]["template"]})

ODD: Final[dict[str, str]] = {
    name: document if isinstance(document, str) else json.dumps(document)
    for name, document in {
        # Wrong types.
        "annotation a number": pod({SPEC: 1}),
        "annotation true": pod({SPEC: True}),
        "annotation null": pod({SPEC: None}),
        "annotation an object": pod({SPEC: {"numaTopologyPolicy": "SingleNUMANode"}}),
        "annotations a list": pod([SPEC]),
        "annotations text": pod("SingleNUMANode"),
        "labels a number": pod(metadata={"labels": {"a": 1}}),
        "template annotation a number": job({}, {"metadata": {"annotations": {SPEC: 1}}, **job()["spec"]["template"]}),
        "workload annotation a number": job({MIN_MEMBER: 4}),
        "replicas text": deployment(replicas="two"),
        "replicas fractional": deployment(replicas=1.5),
        "parallelism huge": job(RACKS, parallelism=2**40),
        "parallelism beyond int64": job(RACKS, parallelism=10**30),
        "parallelism large": job(RACKS, parallelism=2_000_000, completions=2_000_000),
        "parallelism negative": job(RACKS, parallelism=-1),
        "cpu a number": pod(container={"resources": amounts(cpu=4)}),
        "cpu fractional": pod(container={"resources": amounts(cpu=0.5)}),
        "cpu huge": pod(container={"resources": amounts(cpu="99999999999999999999")}),
        "cpu nonsense": pod(container={"resources": amounts(cpu="4 cores")}),
        "cpu negative": pod(container={"resources": amounts(cpu="-4")}),
        "cpu empty": pod(container={"resources": amounts(cpu="")}),
        # Values of annotations.
        "policy empty": pod(policy("")),
        "policy null": pod(policy(None)),
        "policy a number": pod(policy(1)),
        "policy lower case": pod(policy("singlenumanode")),
        "annotation empty": pod({SPEC: ""}),
        "annotation a JSON text": pod({SPEC: '"SingleNUMANode"'}),
        "annotation huge": pod({SPEC: '{"a": "' + "x" * 50_000 + '"}'}),
        "unknown field": pod({SPEC: '{"numaTopologyPolicy": "SingleNUMANode", "numaPolicy": 1}'}),
        "minimum nonsense": job({**RACKS, MIN_MEMBER: "many"}),
        "minimum huge": job({**RACKS, MIN_MEMBER: "9" * 40}),
        "minimum zero": job({**RACKS, MIN_MEMBER: "0"}),
        "segment zero": job({**RACKS, SEGMENT: "0", SEGMENT_LEVEL: "rack"}),
        "segments that do not divide": job({**RACKS, SEGMENT: "4,3", SEGMENT_LEVEL: "zone,rack"}),
        "segments out of order": job({**RACKS, SEGMENT: "4,2", SEGMENT_LEVEL: "rack,zone"}),
        "segments without end": job({**RACKS, SEGMENT: "2," * 50_000, SEGMENT_LEVEL: "rack," * 50_000}),
        "topology unknown": job({**RACKS, "kai.scheduler/topology": "nowhere"}),
        "level unknown": job({**RACKS, LEVEL: "row"}),
        "level without a topology": job({LEVEL: "rack"}),
        "inherit nonsense": pod({**SINGLE, INHERIT: "yes"}),
        "forged placement": pod({**SINGLE, "topology-webhook.dev/placement": "placed on n0"}),
        "forged hint": pod({**SINGLE, "topology-webhook.dev/numa": "{}"}),
        "group name odd": pod({**SINGLE, "pod-group-name": "A B\tC" * 100}),
        "group name empty": pod({**SINGLE, "pod-group-name": ""}),
        # Documents.
        "empty documents": "---\n---\n" + json.dumps(pod()) + "\n---\n",
        "a List": {"apiVersion": "v1", "kind": "List", "items": [pod(), job()]},
        "a PodList": {"apiVersion": "v1", "kind": "PodList", "items": [pod()]},
        "an empty List": {"apiVersion": "v1", "kind": "List", "items": []},
        "two of one name": many(pod(), pod(policy("Restricted"))),
        "an unknown kind": {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}},
        "a kind of another version": {**job(), "apiVersion": "batch/v7"},
        "a kind of another group": {**job(), "apiVersion": "extensions/v1beta1"},
        "no apiVersion": without(pod(), "apiVersion"),
        "no kind": without(pod(), "kind"),
        "no metadata": without(pod(), "metadata"),
        "no name": without(pod(), "metadata", "name"),
        "generateName": without(pod(metadata={"generateName": "p-"}), "metadata", "name"),
        "name nonsense": pod(metadata={"name": "Not_A/Name"}),
        # Pods and templates.
        "no spec": without(pod(), "spec"),
        "no containers": without(pod(), "spec", "containers"),
        "template without containers": job(template={"spec": {"restartPolicy": "Never"}}),
        "template without a spec": job(template={}),
        "no template": without(job(), "spec", "template"),
        "template null": {**job(), "spec": {"template": None}},
        "containers empty": pod(containers=[]),
        "container null": pod(containers=[None]),
        "node chosen": pod(nodeName="n0"),
        "another scheduler": pod(schedulerName="other"),
        "affinity without terms": pod(
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
        ),
        "operator unknown": pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}]
                    }
                }
            }
        ),
        "a gate of ours": pod(schedulingGates=[{"name": "topology-webhook.dev/placement"}]),
        "a gate of another": pod(schedulingGates=[{"name": "example.com/quota"}]),
        "limits without requests": pod(container={"resources": {"limits": {"cpu": "4", "memory": "1Gi"}}}),
        "no limits": pod(container={"resources": {}}),
        # Owners.
        "an owner in the same file": many(job(), pod({INHERIT: "true"}, metadata={"ownerReferences": [OWNER]})),
        "an owner that is not there": pod({INHERIT: "true"}, metadata={"ownerReferences": [OWNER]}),
        "an owner of no kind": pod({INHERIT: "true"}, metadata={"ownerReferences": [{**OWNER, "kind": "a/b"}]}),
        "an owner without a UID": pod({INHERIT: "true"}, metadata={"ownerReferences": [{**OWNER, "uid": ""}]}),
        "two controllers": pod(
            {INHERIT: "true"},
            metadata={"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "2", "controller": True}]},
        ),
        "marked and asking": MARKED,
        "suspended": job(RACKS, suspend=True),
        "no pods": deployment({**SINGLE, MIN_MEMBER: "1"}, replicas=0),
    }.items()
}
"""A name for people -> the file's text."""
