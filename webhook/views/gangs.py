"""The gangs of the cluster: how many members have a node, where they are, and why the others wait.

1. Members with a node come from the index of gangs. Waiting members are found among the gated pods.
2. A gang's domain is the finest one that all its members with a node share, by the annotation that records each
   member's domains.
3. Gangs that wait come first, the oldest first; then all others by namespace and name.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from webhook.formats.kubernetes.membership import AssignedMember, membership_of
from webhook.model.errors import UserError
from webhook.model.json_text import parse_object
from webhook.model.names import DOMAIN, PLACEMENT
from webhook.model.raw import Raw
from webhook.state.cluster_cache import ClusterCache


@dataclass(frozen=True, slots=True)
class GangView:
    """One gang."""

    namespace: str
    name: str
    assigned: int
    """Members that have a node."""
    waiting: int
    """Members behind the gate."""
    nodes: int
    """How many nodes its members have."""
    domain: tuple[tuple[str, str], ...]
    """(node label, value), coarse to fine, of the finest domain that its members share; empty if none is recorded."""
    since: str
    """When its oldest waiting member was created (RFC 3339); empty if none waits."""
    text: str
    """What that member's annotation `placement` says."""


def gang_views(cache: ClusterCache) -> tuple[GangView, ...]:
    """All gangs, those that wait first."""
    waiting: dict[str, list[Raw]] = defaultdict(list)
    names: dict[str, str] = {}
    for raw in cache.gated_pods().values():
        if (membership := membership_of(raw)) is not None:
            waiting[membership.group].append(raw)
            names[membership.group] = membership.name
    assigned = cache.gangs.groups()
    views = [
        _view(group, names.get(group, ""), assigned.get(group, {}), waiting.get(group, ()))
        for group in {*assigned, *waiting}
    ]
    return tuple(sorted(views, key=lambda view: (not view.waiting, view.since, view.namespace, view.name)))


def _view(group: str, name: str, members: Mapping[str, AssignedMember], waiting: Iterable[Raw]) -> GangView:
    waiting = sorted(waiting, key=lambda raw: (_created(raw), raw["metadata"]["name"]))
    oldest = waiting[0]["metadata"] if waiting else {}
    return GangView(
        group.partition("/")[0],
        name or next(iter(members.values())).gang,
        len(members),
        len(waiting),
        len({member.node for member in members.values()}),
        _shared({member.domain for member in members.values()}),
        oldest.get("creationTimestamp") or "",
        (oldest.get("annotations") or {}).get(PLACEMENT, ""),
    )


def _created(raw: Raw) -> str:
    return raw["metadata"].get("creationTimestamp") or ""


def _shared(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The domains that all of these annotations record, coarse to fine."""
    shared: list[tuple[str, str]] | None = None
    for text in texts:
        try:
            domains = [(label, str(value)) for label, value in parse_object(text, DOMAIN)[0].items()] if text else []
        except UserError:
            domains = []
        if shared is None:
            shared = domains
        differ = [at for at, (one, other) in enumerate(zip(shared, domains, strict=False)) if one != other]
        shared = shared[: min([len(shared), len(domains), *differ[:1]])]
    return tuple(shared or ())
