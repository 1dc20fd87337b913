"""The pods of a gang for which machines are asked together, as pod sets: members of one template.

1. Members of several templates: all that wait, because which of them start first is not known before they are placed.
2. Members of one template: as many as must start together. Where a node group cannot hold all
   members, a gang that may start with fewer still starts. The rest is asked for pod by pod once the gang has begun.
3. A template stands for the pods when cluster-autoscaler simulates where they would run (`template_of`).
4. The gang's placement says what became of its request (the functions `*_text`).

Source: autoscaler cluster-autoscaler/provisioningrequest/pods/pods.go (PodsForProvisioningRequest); kubernetes
pkg/scheduler/framework/plugins (the Filter plugins), pkg/apis/core/validation (ValidatePodTemplateSpec).
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from webhook.formats.autoscaling import CHECK_CAPACITY, MAX_POD_SETS, Answer, ProvisioningClass, consumed_by
from webhook.formats.patches.affinity_patch import REQUIRED
from webhook.model.json_text import shortened
from webhook.model.raw import Draft
from webhook.model.wording import counted
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.waiting_unit import WaitingUnit
from webhook.steps import Steps

NOT_SERVED: Final = "cluster-autoscaler is not asked for nodes: the cluster does not serve ProvisioningRequests"
UNANSWERED: Final = "cluster-autoscaler does not answer: does it run with --enable-provisioning-requests?"
CHANGED: Final = "its pods have changed since cluster-autoscaler was asked"
DELETED: Final = "another client deleted its ProvisioningRequest"
BEING_WRITTEN: Final = "it is being written"
REPLACED: Final = "its last ProvisioningRequest is cancelled before cluster-autoscaler is asked again"

_SAYS: Final[Mapping[Answer, str]] = {
    Answer.NONE: "no answer yet",
    Answer.ACCEPTED: "it is accepted",
    Answer.NO_CAPACITY: "there is no capacity now, and cluster-autoscaler tries again",
    Answer.PROVISIONED: "it is provisioned",
    Answer.FAILED: "it failed",
    Answer.EXPIRED: "its capacity was reserved for some minutes and no longer is",
    Answer.REVOKED: "its capacity was revoked",
}


def request_text(class_name: ProvisioningClass, asked: str, count: int, name: str = "") -> str:
    """What is asked by a request. asked: the clauses about node groups. name: of the request, if there is one."""
    pods = counted(count, "pod")
    request = f"ProvisioningRequest {name}" if name else "one ProvisioningRequest"
    if class_name == CHECK_CAPACITY:
        what = f"cluster-autoscaler is asked whether there is capacity for {pods} at once, and adds no node for that"
        return f"{what}; {request}"
    return f"{asked}; {request} for {pods} at once"


def answer_text(answer: Answer, detail: str = "") -> str:
    """The answer, with the reason and message of its condition."""
    return f"{_SAYS[answer]} ({detail})" if detail and answer is not Answer.ACCEPTED else _SAYS[answer]


def put_off_text(why: str) -> str:
    """Why it is not asked now."""
    return f"cluster-autoscaler is not asked for nodes now, and will be again: {why}"


def turn_text(most: int) -> str:
    """Why a gang has no request yet."""
    return f"cluster-autoscaler is asked for nodes when it is its turn: at most {most} ProvisioningRequests are open"


def too_many_text(most: int) -> str:
    """Why no request can be made."""
    return (
        f"cluster-autoscaler is not asked for nodes: its pods are of more than {most} different templates, "
        "and a ProvisioningRequest takes no more"
    )


def consumed_text(pod: str, name: str) -> str:
    """Why no request of ours is made."""
    return f"cluster-autoscaler adds no node for it: pod {pod} consumes ProvisioningRequest {shortened(name)}"


_SPEC: Final = ("nodeSelector", "tolerations", "overhead", "priority", "hostNetwork", "schedulerName", "resources")
_POD_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
_SPREAD: Final = "topologySpreadConstraints"


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


def template_of(raw: Mapping[str, Any], selected: AbstractSet[str]) -> Draft:
    """The PodTemplateSpec of a gated pod, for the autoscaler's simulation. selected: the labels to keep.

    It has what the autoscaler's scheduler filters look at, and nothing else of the pod: no environment, no commands, no
    volumes but claims, no preferences, and no scheduling gate. So members that differ in their rank alone share a
    template.

    - Labels are kept if a selector of the gang names them.
    - Ephemeral volumes are left out: the claims of the simulated pods would not exist, and so they would fit nowhere.
    - `matchLabelKeys` become requirements of the selectors, as the API server makes them for a pod.
    """
    spec = raw["spec"]
    held = raw["metadata"].get("labels") or {}
    labels = {key: held[key] for key in sorted(selected) if key in held}
    kept: Draft = {field: spec[field] for field in _SPEC if spec.get(field)}
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


def _container(raw: Mapping[str, Any]) -> Draft:
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


def _affinity(affinity: Mapping[str, Any], labels: Mapping[str, str]) -> Draft:
    """What it requires; preferences do not decide where a pod fits."""
    kept: Draft = {}
    if (nodes := (affinity.get("nodeAffinity") or {}).get(REQUIRED)) is not None:
        kept["nodeAffinity"] = {REQUIRED: nodes}
    for kind in _POD_AFFINITIES:
        if terms := (affinity.get(kind) or {}).get(REQUIRED):
            kept[kind] = {REQUIRED: [_merged(each, labels) for each in terms]}
    return kept


def _merged(term: Mapping[str, Any], labels: Mapping[str, str]) -> Draft:
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


def _claim(volume: Mapping[str, Any]) -> Draft:
    return {"name": volume["name"], "persistentVolumeClaim": volume["persistentVolumeClaim"]}


_DIGITS: Final = 20
"""Hexadecimal digits of a digest: 80 bits, so that no tenant finds two gangs with the same one."""


_Same = tuple[str, Hashable]
"""The template as text, and the request signature."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal members."""

    template: dict[str, Any]
    """Their PodTemplateSpec. Must not be changed."""
    signature: Hashable
    """Their request signature: which nodes can take them."""
    count: int


@dataclass(frozen=True, slots=True)
class PodSets:
    """All pod sets of a gang, in a stable order."""

    each: tuple[PodSet, ...]
    digest: str
    """Equal for the same pods of the same class."""

    @property
    def count(self) -> int:
        """The pods that machines are asked for."""
        return sum(one.count for one in self.each)


def whole_gang(unit: WaitingUnit) -> GatedGang | None:
    """A gang of which all members wait. One that has begun is asked for pod by pod, as single pods are."""
    return unit.unit if isinstance(unit.unit, GatedGang) and not unit.assigned else None


def why_no_request(gang: GatedGang, pod_sets: PodSets) -> str:
    """Why no request can be made for a gang; empty if one can."""
    for member in gang.members:
        if name := consumed_by(member.raw["metadata"].get("annotations") or {}):
            return consumed_text(member.pod.name, name)
    return too_many_text(MAX_POD_SETS) if len(pod_sets.each) > MAX_POD_SETS else ""


def pod_sets_of(gang: GatedGang, minimum: int, class_name: str) -> Steps[PodSets]:
    """The pod sets of a gang of which no member has a node. minimum: how many of them must start together.

    A step reads one member. Of a gang with more templates than a request takes, only so many and one more are made.
    """
    selected: set[str] = set()
    for member in gang.members:
        selected |= selected_labels(member.raw)
        yield
    templates: dict[_Same, dict[str, Any]] = {}
    counts: Counter[_Same] = Counter()
    for member in gang.members:
        template = template_of(member.raw, selected)
        same = json.dumps(template, sort_keys=True), member.request_signature
        templates.setdefault(same, template)
        counts[same] += 1
        if len(templates) > MAX_POD_SETS:
            break
        yield
    most = len(gang.members)
    # Subgroups have minimums of their own.
    if len(templates) == 1 and gang.pod_group is None:
        most = max(1, min(minimum, most))
    # Templates that are equal keep the gang's order.
    ordered = sorted(templates, key=lambda same: same[0])
    each = tuple(PodSet(templates[same], same[1], min(most, counts[same])) for same in ordered)
    said = [class_name, *((text, one.count) for (text, _), one in zip(ordered, each, strict=True))]
    return PodSets(each, digest_of(said))


def digest_of(value: object) -> str:
    """A digest of a value that JSON can hold, as part of a name."""
    return sha256(json.dumps(value, sort_keys=True).encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
