"""The pods of a gang for which machines are asked together, as pod sets: members of one template.

1. Members of several templates: all that wait, because which of them start first is not known before they are placed.
2. Members of one template: as many as must start together. Where a node group cannot hold all
   members, a gang that may start with fewer still starts. The rest is asked for pod by pod once the gang has begun.
"""

import json
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from webhook.controllers.autoscaling.provisioning_templates import selected_labels, template_of
from webhook.controllers.autoscaling.provisioning_texts import consumed_text, too_many_text
from webhook.controllers.placement.gang_search import GatedGang
from webhook.controllers.preemption.preemptor import Preemptor
from webhook.model.provisioning_request import MAX_POD_SETS, consumed_by
from webhook.steps import Steps

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


def whole_gang(unit: Preemptor) -> GatedGang | None:
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
