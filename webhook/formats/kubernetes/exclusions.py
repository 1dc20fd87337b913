"""How the members of a gang keep each other off their nodes and domains: what counts as at most k members in each.

1. Required pod anti-affinity to members of the own gang: one member a domain of its topology key. A member that
   excludes others that do not exclude each other takes the room of all of them.
2. Topology spread with `whenUnsatisfiable: DoNotSchedule`: `maxSkew` members a domain, as long as one has none.
3. Host ports, of the containers that the scheduler counts: one member a node for each port.

The domain is a node (`kubernetes.io/hostname`), or one of a level of the gang's topology if all members are equal.
Everything else is not counted, and is named by its path. Only members of the gang count, not other pods.

Source: kubernetes pkg/scheduler/framework/plugins (interpodaffinity, podtopologyspread, nodeports),
pkg/apis/core/v1/defaults.go (host ports of a pod in its node's network).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from webhook.formats.kubernetes.label_selector import LabelSelector, Requirement
from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.names import HOSTNAME_LABEL

ROOM_FOR: Final = "nodes for members that"
"""The names of these limits begin with this. No resource of Kubernetes is named so."""
# Pods in use have one or two rules each. A rule costs a comparison with each pod set, and a row over all nodes.
MOST_RULES: Final = 16
# More of the smaller members than any node runs.
_ALL: Final = 1 << 20
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ANY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 # compared, not bound

Port = tuple[str, int, str]
"""Protocol, port, address; "" is any address."""


@dataclass(frozen=True, slots=True)
class Term:
    """A rule of one pod about pods with some labels in the same domain."""

    key: str
    """The node label that names the domain."""
    selector: LabelSelector
    most: int
    spreads: bool
    """Whether it is a topology spread constraint, not anti-affinity."""
    path: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class PodExclusions:
    """What one pod keeps off its node or domain."""

    terms: tuple[Term, ...]
    ports: frozenset[Port]
    unread: tuple[str, ...] = ()
    """The paths of terms that are not counted whatever the gang is."""

    @classmethod
    def of(cls, spec: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> "PodExclusions | None":
        """Those of a pod; None if it has none. What the API server would reject is left out."""
        unread: list[str] = []
        terms = [*_anti_affinity(spec, namespace, labels, unread), *_spread(spec, labels)]
        unread += [term.path for term in terms[MOST_RULES:]]
        ports = _ports(spec)
        if not terms and not ports and not unread:
            return None
        return cls(tuple(terms[:MOST_RULES]), ports, tuple(unread))


Likeness = Callable[[Mapping[str, str], PodExclusions | None], Hashable]
"""Equal for pods that the rules of a gang do not tell apart."""


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `room` in each domain, where a member of each pod set takes a part of it."""

    name: str
    level: int | None
    """The index of the domains' level in the topology; None: nodes."""
    room: int
    needs: tuple[int, ...]
    """What a member of each pod set takes; 0 = nothing."""
    spreads: bool = False


def limits_of(
    pods: Sequence[tuple[Mapping[str, str], PodExclusions | None]], levels: Sequence[str]
) -> tuple[list[Limit], list[tuple[int, str]]]:
    """The limits of a gang, and the rules that are not counted: index of a pod set, and the rule's path in its pod.

    pods: labels and exclusions of each pod set; levels: node labels of its topology, from coarse to fine.
    """
    limits: list[Limit] = []
    ignored = [
        (index, path)
        for index, (_, exclusions) in enumerate(pods)
        for path in (() if exclusions is None else exclusions.unread)
    ]
    owners: dict[Term, list[int]] = {}
    for index, (_, exclusions) in enumerate(pods):
        for term in () if exclusions is None else exclusions.terms:
            owners.setdefault(term, []).append(index)
    for number, (term, held) in enumerate(owners.items()):
        limit = _limit(term, held, pods, levels) if number < MOST_RULES else None
        if isinstance(limit, Limit):
            limits.append(limit)
        elif limit is None:
            ignored.append((held[0], term.path))
    limits += _of_ports([exclusions.ports if exclusions is not None else frozenset() for _, exclusions in pods])
    # Of equal limits one is enough: a template may say the same in two ways.
    return list({(limit.level, limit.room, limit.needs): limit for limit in limits}.values()), ignored


def rules_across(
    pods: Sequence[tuple[Mapping[str, str], PodExclusions | None]], parts: Sequence[str | None]
) -> Iterator[tuple[int, str]]:
    """The rules that concern pods of other parts, which are placed without them: index of a pod set, and the rule.

    pods: labels and exclusions of each pod set; parts: the topology that each is in.
    """
    for index, (_, exclusions) in enumerate(pods):
        others = [pod for pod, part in zip(pods, parts, strict=True) if part != parts[index]]
        if exclusions is None or not others:
            continue
        for term in exclusions.terms:
            if any(term.selector.matches(labels) for labels, _ in others):
                yield index, term.path
        theirs = {port for _, other in others if other is not None for port in other.ports}
        for protocol, port, address in sorted(exclusions.ports)[:MOST_RULES]:
            addresses = {at for *number, at in theirs if number == [protocol, port]}
            if addresses and (not address or addresses & {address, ""}):
                yield index, f"spec.containers: the host port {port}/{protocol}"


def likeness(pods: Iterable[tuple[Mapping[str, str], PodExclusions | None]]) -> Likeness:
    """What makes pods of a gang equal in the rules of all of them, by labels and exclusions."""
    terms = {term for _, exclusions in pods if exclusions is not None for term in exclusions.terms}
    keys = sorted({requirement.key for term in terms for requirement in term.selector.requirements})
    return lambda labels, exclusions: (exclusions, *(labels.get(key) for key in keys))


def _limit(
    term: Term,
    owners: Sequence[int],
    pods: Sequence[tuple[Mapping[str, str], PodExclusions | None]],
    levels: Sequence[str],
) -> Limit | bool | None:
    """The limit of a rule; False if it is about no member; None if it is not counted."""
    matched = [term.selector.matches(labels) for labels, _ in pods]
    if not any(matched):
        return False
    level = None if term.key == HOSTNAME_LABEL else levels.index(term.key) if term.key in levels else -1
    if level == -1 or (level is not None and len(pods) > 1) or not all(matched[index] for index in owners):
        return None
    place = "node" if level is None else term.key.rpartition("/")[2]
    if len(owners) == sum(matched):
        how = "spread over" if term.spreads else "exclude each other on"
        name = f"{ROOM_FOR} {how} a {place}"
        return Limit(name, level, term.most, tuple(map(int, matched)), term.spreads)
    if term.spreads:
        return None
    needs = tuple(_ALL if index in set(owners) else int(found) for index, found in enumerate(matched))
    return Limit(f"{ROOM_FOR} exclude others on a {place}", level, _ALL, needs)


def _of_ports(ports: Sequence[frozenset[Port]]) -> Iterator[Limit]:
    numbers = list(dict.fromkeys((protocol, port) for held in ports for protocol, port, _ in sorted(held)))
    for protocol, port in numbers[:MOST_RULES]:
        addresses = [{address for *number, address in held if number == [protocol, port]} for held in ports]
        for address in sorted(set().union(*addresses)):
            # A pod on any address takes the port of each.
            needs = tuple(int(address in held or "" in held) for held in addresses)
            yield Limit(f"{ROOM_FOR} use the host port {port}/{protocol}", None, 1, needs)


def _anti_affinity(
    spec: Mapping[str, Any], namespace: str, labels: Mapping[str, str], unread: list[str]
) -> Iterator[Term]:
    path = f"spec.affinity.podAntiAffinity.{_REQUIRED}"
    held = _mapping(_mapping(spec.get("affinity")).get("podAntiAffinity")).get(_REQUIRED)
    for index, raw in enumerate(_list(held)):
        where = f"{path}[{index}]"
        term = _mapping(raw)
        anywhere = term.get("namespaceSelector") == {}
        named = term.get("namespaces")
        if term.get("namespaceSelector") and not (isinstance(named, list) and namespace in named):
            unread.append(where)  # whether it selects the own namespace depends on that one's labels
        elif not anywhere and isinstance(named, list) and named and namespace not in named:
            continue
        elif (selector := _selector(term, labels, where)) is not None:
            yield Term(str(term.get("topologyKey")), selector, 1, False, where)


def _spread(spec: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Term]:
    for index, raw in enumerate(_list(spec.get("topologySpreadConstraints"))):
        where, term = f"spec.topologySpreadConstraints[{index}]", _mapping(raw)
        most = term.get("maxSkew")
        if term.get("whenUnsatisfiable") == "DoNotSchedule" and isinstance(most, int) and most >= 1:
            selector = _selector(term, labels, where)
            if selector is not None:
                yield Term(str(term.get("topologyKey")), selector, most, True, where)


def _selector(term: Mapping[str, Any], labels: Mapping[str, str], path: str) -> LabelSelector | None:
    """The pods that a term is about; None for none."""
    raw = term.get("labelSelector")
    if not isinstance(raw, Mapping):
        return None
    try:
        found = LabelSelector.from_object(raw, f"{path}.labelSelector")
    except UserError:
        return None
    more = [
        Requirement(key, operator, frozenset({labels[key]}))
        for field_name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in _list(term.get(field_name))
        if isinstance(key, str) and key in labels
    ]
    return LabelSelector((*found.requirements, *more))


def _ports(spec: Mapping[str, Any]) -> frozenset[Port]:
    is_host = spec.get("hostNetwork") is True
    sidecars = [raw for raw in _list(spec.get("initContainers")) if _mapping(raw).get("restartPolicy") == "Always"]
    found: set[Port] = set()
    for container in (*_list(spec.get("containers")), *sidecars):
        for port in map(_mapping, _list(_mapping(container).get("ports"))):
            number = port.get("hostPort") or (port.get("containerPort") if is_host else None)
            if isinstance(number, int) and number > 0:
                address = str(port.get("hostIP") or "")
                found.add((str(port.get("protocol") or "TCP"), number, "" if address in _ANY_ADDRESS else address))
    return frozenset(found)


def _list(raw: Any) -> Sequence[Any]:
    return raw if isinstance(raw, list) else ()


def _mapping(raw: Any) -> Mapping[str, Any]:
    return raw if isinstance(raw, Mapping) else {}


def rule_across_text(path: str) -> str:
    """The warning about a rule that concerns pods in another topology. path: of the rule in the object."""
    return (
        f"{path} is not counted between parts of the gang in different topologies, which are placed one after the "
        "other, so the scheduler may refuse nodes that its pods get."
    )


def ignored_rule_text(path: str, topology: str) -> str:
    """The warning about a rule that is not counted. path: of the rule in the object."""
    levels = f" and, if all pods are equal, in one domain of topology {shortened(topology)}" if topology else ""
    return (
        f"{path} is not counted when the gang is placed, so the scheduler may refuse nodes that its pods get. "
        f"Counted are rules of pods about others of the gang on one node ({HOSTNAME_LABEL}){levels}."
    )
