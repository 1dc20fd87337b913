"""The order of a gang's waiting members, and which of them stand for others."""

from collections.abc import Hashable, Mapping, Sequence

from webhook.formats.kubernetes.exclusions import likeness
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.kubernetes.pod import Pod
from webhook.placing.pod.gated_pods import GatedPod


def preferring(members: Sequence[GatedPod]) -> tuple[tuple[Pod, int], ...]:
    """One member of each preference, and how many share it; () if the first stands for all."""
    by_preference: dict[str, list[GatedPod]] = {}
    for gated in members:
        by_preference.setdefault(gated.preferred, []).append(gated)
    return tuple((ones[0].pod, len(ones)) for ones in by_preference.values()) if len(by_preference) > 1 else ()


def told_apart(members: Sequence[GatedPod]) -> Mapping[str, Hashable]:
    """Key of a member -> equal for those that the gang's rules about pods on one node or in one domain treat alike."""
    pods = [(gated.pod.labels, gated.pod.exclusions) for gated in members]
    alike = likeness(pods)
    return {gated.key: alike(*pod) for gated, pod in zip(members, pods, strict=True)}


def ranks_of(members: Sequence[GatedPod], assigned_members: Sequence[AssignedMember]) -> dict[str, int]:
    """Each member's position in the order of the gang: its own rank, or the next free one, by name.

    A rank belongs to one member. Of two with the same rank, an assigned one keeps it, then the older one.
    """
    taken = {member.rank for member in assigned_members if member.rank is not None}
    ranks: dict[str, int] = {}
    for gated in sorted(members, key=lambda gated: (gated.pod.created, gated.key)):
        rank = gated.membership.rank if gated.membership else None
        if rank is not None and rank not in taken:
            ranks[gated.key] = rank
            taken.add(rank)
    free = (rank for rank in range(len(members) + len(taken)) if rank not in taken)
    return ranks | {key: next(free) for key in sorted({gated.key for gated in members} - ranks.keys())}
