"""What must be true for a pod, by short rules that share no code with the engine."""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import jsonpatch

from tests.fuzz.corpus import FREE, POLICY
from tests.fuzz.mutate import places
from tests.fuzz.outcome import BrokenError
from webhook.cli.input.object_schema import METADATA, NODE, POD, TEXT, faults
from webhook.model.raw import Draft

_SPECS = ("scheduling.koordinator.sh/numa-topology-spec", "scheduling.koordinator.sh/resource-spec")
_BINDING = {"metadata!": METADATA, "target!": {"name": TEXT}}
_POLICIES = {"", "BestEffort", "Restricted", "SingleNUMANode"}


def is_typed(path: str, review: Any) -> bool:
    """Whether an API server could send this: it decodes its own kinds strictly before it calls a webhook."""
    try:
        request = review["request"]
        objects = [request["object"], request.get("oldObject")]
        shape = {"pods": POD, "nodes": NODE, "bindings": _BINDING}.get(path.rpartition("/")[2], {})
        return isinstance(objects[0], dict) and not any(fault for held in objects for fault in faults(held, shape))
    except (KeyError, TypeError, AttributeError):
        return False


def must_be_denied(pod: Any) -> bool:
    """Whether an annotation of the pod is neither a JSON object nor null, or names an unknown policy."""
    try:
        metadata, spec = pod["metadata"], pod["spec"]
        annotations = metadata.get("annotations") or {}
        texts = [annotations[name] for name in _SPECS if name in annotations]
        is_ours = not spec.get("schedulerName") or spec["schedulerName"] == "default-scheduler"
    except (KeyError, TypeError, AttributeError):
        return False
    if not is_ours or metadata.get("ownerReferences") or not all(isinstance(text, str) for text in texts):
        return False
    return any(map(_is_wrong, texts))


def _is_wrong(text: str) -> bool:
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return True
    if held is None:
        return False  # to Go, which Koordinator is written in, this is an empty object
    if not isinstance(held, dict):
        return True
    policy = held.get("numaTopologyPolicy")
    return not (policy is None or policy in _POLICIES) if isinstance(policy, str | None) else True


def check_mutation(pod: Any, response: Mapping[str, Any]) -> None:
    """If a strict plain pod may go to a node after the patch, one NUMA node of it must hold the pod."""
    cpus = _cpus_of_plain(pod)
    if cpus is None or not response.get("patch"):
        return
    patch = jsonpatch.JsonPatch(json.loads(b64decode(response["patch"])))
    mutated_pod = patch.apply(deepcopy(pod))
    if mutated_pod["spec"].get("schedulingGates"):
        return  # it waits; whoever places it asks anew
    for node in [*FREE, "n5"]:
        fits = POLICY.get(node) is None and node in FREE and max(FREE[node]) >= cpus
        if not fits and _may_go_to(mutated_pod["spec"], node):
            raise BrokenError(f"a pod of {cpus} cpus on one NUMA node may go to {node}: {FREE.get(node)}")


def _cpus_of_plain(pod: Any) -> int | None:
    """The cpus of a strict Guaranteed pod with one container; None for any other pod."""
    try:
        (container,) = pod["spec"]["containers"]
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        policy = json.loads(pod["metadata"]["annotations"][_SPECS[0]])["numaTopologyPolicy"]
        plain = requests == limits and requests.keys() == {"cpu", "memory"} and requests["memory"] == "1Gi"
        alone = not pod["spec"].keys() & {"initContainers", "resources", "nodeName", "overhead"}
        cpus = str(requests["cpu"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    if policy != "SingleNUMANode" or not plain or not alone or not (cpus.isascii() and cpus.isdigit()):
        return None
    return int(cpus) if 0 < len(cpus) < 9 and int(cpus) > 0 else None


def _may_go_to(spec: Draft, node: str) -> bool:
    """Whether the pod's required node affinity admits the node, by the scheduler's rules."""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required is None:
        return True
    labels = {"kubernetes.io/hostname": node}
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(_matches(each, labels) for each in term.get("matchExpressions") or ())
        and all(_matches(each, {"metadata.name": node}) for each in term.get("matchFields") or ())
        for term in required.get("nodeSelectorTerms") or ()
    )


def _matches(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if requirement["key"] not in labels:
        return True  # not what we added; the cautious answer
    inside = labels[requirement["key"]] in (requirement.get("values") or ())
    return {"In": inside, "NotIn": not inside}.get(requirement["operator"], True)


def without_parts(whole: Draft) -> Iterator[Draft]:
    """The object without one of its places, large places first."""
    found = sorted((path for path in places(whole) if path), key=len)
    for path in found:
        less = deepcopy(whole)
        held: Any = less
        for step in path[:-1]:
            held = held[step]
        del held[path[-1]]
        yield less
