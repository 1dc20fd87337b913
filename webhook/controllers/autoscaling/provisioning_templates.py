"""The template that stands for a gated pod when cluster-autoscaler simulates where it would run.

It has what the autoscaler's scheduler filters look at, and nothing else of the pod: no environment, no commands, no
volumes but claims, no preferences, and no scheduling gate. So members that differ in their rank alone share a template.

- Labels are kept if a selector of the gang names them.
- Ephemeral volumes are left out: the claims of the simulated pods would not exist, and so they would fit nowhere.
- `matchLabelKeys` become requirements of the selectors, as the API server makes them for a pod.

Source: autoscaler cluster-autoscaler/provisioningrequest/pods/pods.go (PodsForProvisioningRequest); kubernetes
pkg/scheduler/framework/plugins (the Filter plugins), pkg/apis/core/validation (ValidatePodTemplateSpec).
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from webhook.admission.pod.affinity_patch import REQUIRED

_SPEC: Final = ("nodeSelector", "tolerations", "overhead", "priority", "hostNetwork", "schedulerName", "resources")
_POD_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
_SPREAD: Final = "topologySpreadConstraints"

Raw = dict[str, Any]


def selected_labels(raw: Mapping[str, Any]) -> set[str]:
    """The labels that selectors of this pod object name."""
    keys: set[str] = set()
    for term in _selecting(raw["spec"]):
        selector = term.get("labelSelector") or {}
        keys.update(selector.get("matchLabels") or ())
        keys.update(str(one.get("key")) for one in selector.get("matchExpressions") or ())
        keys.update(term.get("matchLabelKeys") or ())
        keys.update(term.get("mismatchLabelKeys") or ())
    return keys


def template_of(raw: Mapping[str, Any], selected: AbstractSet[str]) -> Raw:
    """The PodTemplateSpec of a pod object. selected: the labels to keep."""
    spec = raw["spec"]
    held = raw["metadata"].get("labels") or {}
    labels = {key: held[key] for key in sorted(selected) if key in held}
    kept: Raw = {field: spec[field] for field in _SPEC if spec.get(field)}
    kept["containers"] = [_container(each) for each in spec["containers"]]
    if first := spec.get("initContainers"):
        kept["initContainers"] = [_container(each) for each in first]
    if affinity := _affinity(spec.get("affinity") or {}, held):
        kept["affinity"] = affinity
    if spread := [_merged(each, held) for each in spec.get(_SPREAD) or () if _is_hard(each)]:
        kept[_SPREAD] = spread
    if claims := [_claim(each) for each in spec.get("volumes") or () if each.get("persistentVolumeClaim")]:
        kept["volumes"] = claims
    return {**({"metadata": {"labels": labels}} if labels else {}), "spec": kept}


def _selecting(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What has a selector of pods in the parts of a spec that templates have."""
    for kind in _POD_AFFINITIES:
        yield from ((spec.get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ()
    yield from (each for each in spec.get(_SPREAD) or () if _is_hard(each))


def _is_hard(constraint: Mapping[str, Any]) -> bool:
    return constraint.get("whenUnsatisfiable") != "ScheduleAnyway"


def _container(raw: Mapping[str, Any]) -> Raw:
    """The amounts and host ports of a container. The API server wants an image, too."""
    amounts = raw.get("resources") or {}
    resources = {kind: amounts[kind] for kind in ("limits", "requests") if amounts.get(kind)}
    ports = [
        {field: port[field] for field in ("containerPort", "hostIP", "hostPort", "protocol") if port.get(field)}
        for port in raw.get("ports") or ()
        if port.get("hostPort")
    ]
    return {
        "name": raw["name"],
        "image": raw.get("image") or "none",
        **({"resources": resources} if resources else {}),
        **({"ports": ports} if ports else {}),
        **({"restartPolicy": raw["restartPolicy"]} if raw.get("restartPolicy") else {}),
    }


def _affinity(affinity: Mapping[str, Any], labels: Mapping[str, str]) -> Raw:
    """What it requires; preferences do not decide where a pod fits."""
    kept: Raw = {}
    if (nodes := (affinity.get("nodeAffinity") or {}).get(REQUIRED)) is not None:
        kept["nodeAffinity"] = {REQUIRED: nodes}
    for kind in _POD_AFFINITIES:
        if terms := (affinity.get(kind) or {}).get(REQUIRED):
            kept[kind] = {REQUIRED: [_merged(each, labels) for each in terms]}
    return kept


def _merged(term: Mapping[str, Any], labels: Mapping[str, str]) -> Raw:
    """A term whose selector has the requirements of its label keys.

    Source: kubernetes pkg/registry/core/pod/strategy.go (applyMatchLabelKeysAndMismatchLabelKeys).
    """
    keys = (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
    merged = {field: value for field, value in term.items() if field not in dict(keys)}
    selector = merged.get("labelSelector")
    if selector is None:
        return merged  # label keys have no effect without a selector
    expressions: Sequence[Mapping[str, Any]] = selector.get("matchExpressions") or ()
    added = []
    for field, operator in keys:
        for key in term.get(field) or ():
            if key in labels:
                one = {"key": key, "operator": operator, "values": [labels[key]]}
                if one not in expressions:
                    added.append(one)
    if added:
        merged["labelSelector"] = {**selector, "matchExpressions": [*expressions, *added]}
    return merged


def _claim(volume: Mapping[str, Any]) -> Raw:
    return {"name": volume["name"], "persistentVolumeClaim": volume["persistentVolumeClaim"]}
