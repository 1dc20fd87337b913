"""Which pods that name a user's PodGroup it can place, and which of them are in which subgroup.

1. A PodGroup with a fault, or whose Topology does not exist, places none: all its pods wait with the reason.
2. A pod must be in a subgroup that exists and has none below it.
3. The PodGroup alone says what the gang asks for. An annotation of a pod or its owners that says otherwise is a fault;
   one that says the same is none.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from webhook.formats.kai.kai_pod_group import KAIPodGroup
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.topology import Topology
from webhook.formats.workload.strategy import strategy_of
from webhook.model.errors import UserError
from webhook.model.fields import whole_number
from webhook.model.json_text import shortened
from webhook.model.names import (
    KAI_BATCH_MIN_MEMBER,
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_SUBGROUP,
    KAI_TOPOLOGY,
    MIN_MEMBER,
)
from webhook.placing.pod.gated_pods import GatedPod

_PATH: Final = "metadata.annotations"
_SEGMENTS: Final = (KAI_SEGMENT_SIZE, KAI_SEGMENT_REQUIRED_PLACEMENT, KAI_SEGMENT_PREFERRED_PLACEMENT)


def faults_of(
    members: Iterable[GatedPod], group: KAIPodGroup, topologies: Mapping[str, Topology]
) -> Iterator[tuple[GatedPod, str]]:
    """The members that the PodGroup does not place, each with the reason."""
    whole = " ".join(group.problems)
    try:
        group.topology_in(topologies)
    except UserError as error:
        whole = whole or " ".join(f"PodGroup {group.name}: {fault}" for fault in error.faults)
    for gated in members:
        if text := whole or _fault(gated, group):
            yield gated, text


def by_subgroup(members: Iterable[GatedPod]) -> dict[str, list[GatedPod]]:
    """The members by the name of their subgroup; "" for a PodGroup without subgroups."""
    found: dict[str, list[GatedPod]] = {}
    for gated in members:
        found.setdefault(gated.pod.labels.get(KAI_SUBGROUP, ""), []).append(gated)
    return found


def assigned_by_subgroup(assigned_members: Iterable[AssignedMember]) -> dict[str, list[AssignedMember]]:
    """The same for assigned members."""
    found: dict[str, list[AssignedMember]] = {}
    for member in assigned_members:
        found.setdefault(member.subgroup, []).append(member)
    return found


def too_few_in(group: KAIPodGroup, members: Iterable[GatedPod]) -> str:
    """Which subgroups have fewer pods than must start together, in words; empty if all have enough."""
    there = {name: len(pods) for name, pods in by_subgroup(members).items()}
    leaves = [part for part in group.whole.all() if not part.parts]
    missing = [
        f"{there.get(part.name, 0)} of {part.minimum}" + (f" of subgroup {part.name}" if part.name else "")
        for part in leaves
        if there.get(part.name, 0) < part.minimum
    ]
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return ", ".join(missing[:3]) + more


def _fault(gated: GatedPod, group: KAIPodGroup) -> str:
    asked = gated.pod.annotations
    try:
        group.leaf(gated.pod.labels)
        strategy_of(asked, _PATH)
    except UserError as error:
        return " ".join(map(str, error.faults))
    said = {
        KAI_TOPOLOGY: group.topology_at(gated.pod.labels),
        KAI_REQUIRED_PLACEMENT: group.whole.required,
        KAI_PREFERRED_PLACEMENT: group.whole.preferred,
        **dict.fromkeys(_SEGMENTS, ""),
    }
    for key, value in said.items():
        if asked.get(key) and asked[key] != value:
            return _contradiction(key, asked[key], value, group)
    for key in (MIN_MEMBER, KAI_BATCH_MIN_MEMBER):
        if asked.get(key) and whole_number(asked[key]) != group.whole.minimum:
            return _contradiction(key, asked[key], str(group.whole.minimum), group)
    return ""


def _contradiction(key: str, text: str, value: str, group: KAIPodGroup) -> str:
    says = f'says "{value}"' if value else "says nothing of it"
    return f'{_PATH}[{key}] is "{shortened(text)}", and PodGroup {group.name} {says}. Leave the annotation out'
