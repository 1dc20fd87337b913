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
from itertools import chain, islice
from typing import Any, Final

from webhook.formats.kubernetes.label_selector import LabelSelector, Requirement
from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.names import HOSTNAME_LABEL

ROOM_FOR: Final = "nodes for members that"
"""The names of these limits begin with this. No resource of Kubernetes is named so."""
# Pods in use have one or two rules each. A rule costs a comparison with each pod set, and a row over all nodes.
MOST_RULES: Final = 16
# Selectors in use have a few of each. A requirement costs a comparison with each pod, in each search for the gang.
MOST_REQUIREMENTS: Final = 16
MOST_VALUES: Final = 256
# Pods in the network of their node list a dozen.
MOST_PORTS: Final = 64
_MOST_KEYS: Final = MOST_RULES * MOST_REQUIREMENTS
# More of the smaller members than any node runs.
_ALL: Final = 1 << 20
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PROTOCOLS: Final = frozenset({"TCP", "UDP", "SCTP"})
_LAST_PORT: Final = 65_535
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
        found = chain(_anti_affinity(spec, namespace, labels, unread), _spread(spec, labels, unread))
        terms = tuple(islice(found, MOST_RULES))
        ports = tuple(islice(_ports(spec), MOST_PORTS + 1))
        # Of those beyond the bounds the first is named.
        unread = [*unread[:MOST_RULES], *(term.path for term in islice(found, 1)), *map(_port_text, ports[MOST_PORTS:])]
        if not terms and not ports and not unread:
            return None
        return cls(terms, frozenset(ports[:MOST_PORTS]), tuple(unread))


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
    of_ports, beyond = _of_ports([frozenset() if exclusions is None else exclusions.ports for _, exclusions in pods])
    # Of equal limits one is enough: a template may say the same in two ways.
    limits = list({(limit.level, limit.room, limit.needs): limit for limit in (*limits, *of_ports)}.values())
    return limits, ignored + beyond


def rules_across(
    pods: Sequence[tuple[Mapping[str, str], PodExclusions | None]], parts: Sequence[str | None]
) -> Iterator[tuple[int, str]]:
    """The rules that concern pods of other parts, which are placed without them: index of a pod set, and the rule.

    pods: labels and exclusions of each pod set; parts: the topology that each is in.
    """
    every = set(parts)
    if len(every) == 1:
        return
    terms = dict.fromkeys(term for _, exclusions in pods if exclusions is not None for term in exclusions.terms)
    matched = {term: _parts_matched(term, pods, parts) for term in islice(terms, MOST_RULES)}
    users = _by_port([frozenset() if exclusions is None else exclusions.ports for _, exclusions in pods])
    in_parts = {
        port: {address: {parts[index] for index in indices} for address, indices in users_of.items()}
        for port, users_of in users.items()
    }
    anywhere = {port: set().union(*found.values()) for port, found in in_parts.items()}
    for index, (_, exclusions) in enumerate(pods):
        if exclusions is None:
            continue
        for term in exclusions.terms:
            # Whom the rules beyond the bound are about is not looked at.
            if matched.get(term, every) - {parts[index]}:
                yield index, term.path
        for protocol, port, address in sorted(exclusions.ports)[:MOST_RULES]:
            found = in_parts[protocol, port]
            theirs = found.get(address, set()) | found.get("", set()) if address else anywhere[protocol, port]
            if theirs - {parts[index]}:
                yield index, _port_text((protocol, port, address))


def _parts_matched(
    term: Term, pods: Sequence[tuple[Mapping[str, str], PodExclusions | None]], parts: Sequence[str | None]
) -> set[str | None]:
    """The parts with pods that a rule is about."""
    return {part for (labels, _), part in zip(pods, parts, strict=True) if term.selector.matches(labels)}


def likeness(pods: Iterable[tuple[Mapping[str, str], PodExclusions | None]]) -> Likeness:
    """What makes pods of a gang equal in the rules of all of them, by labels and exclusions."""
    terms = {term for _, exclusions in pods if exclusions is not None for term in exclusions.terms}
    # Not in the order of the members, which changes. A gang with more labels in its rules is counted without the rest.
    keys = sorted({requirement.key for term in terms for requirement in term.selector.requirements})[:_MOST_KEYS]
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
    theirs = set(owners)
    needs = tuple(_ALL if index in theirs else int(found) for index, found in enumerate(matched))
    return Limit(f"{ROOM_FOR} exclude others on a {place}", level, _ALL, needs)


def _by_port(ports: Sequence[frozenset[Port]]) -> dict[tuple[str, int], dict[str, list[int]]]:
    """Protocol and port -> address -> the indices of the pods that use it."""
    users: dict[tuple[str, int], dict[str, list[int]]] = {}
    for index, held in enumerate(ports):
        for protocol, port, address in sorted(held):
            users.setdefault((protocol, port), {}).setdefault(address, []).append(index)
    return users


def _of_ports(ports: Sequence[frozenset[Port]]) -> tuple[list[Limit], list[tuple[int, str]]]:
    """The limits of host ports, of which each is about other pod sets, and the first port beyond the bound."""
    found: dict[frozenset[int], tuple[str, int]] = {}
    for number, users in _by_port(ports).items():
        anywhere = users.get("", [])
        for address in sorted(users):
            # A pod on any address takes the port of each.
            indices = frozenset((*users[address], *anywhere))
            if len(found) == MOST_RULES and indices not in found:
                return _port_limits(found, len(ports)), [(min(indices), _port_text((*number, address)))]
            found.setdefault(indices, number)
    return _port_limits(found, len(ports)), []


def _port_limits(found: Mapping[frozenset[int], tuple[str, int]], pods: int) -> list[Limit]:
    return [
        Limit(
            f"{ROOM_FOR} use the host port {port}/{protocol}",
            None,
            1,
            tuple(int(one in indices) for one in range(pods)),
        )
        for indices, (protocol, port) in found.items()
    ]


def _port_text(port: Port) -> str:
    return f"spec.containers: the host port {port[1]}/{port[0]}"


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
        elif (selector := _selector(term, labels, where, unread)) is not None:
            yield Term(str(term.get("topologyKey")), selector, 1, False, where)


def _spread(spec: Mapping[str, Any], labels: Mapping[str, str], unread: list[str]) -> Iterator[Term]:
    for index, raw in enumerate(_list(spec.get("topologySpreadConstraints"))):
        where, term = f"spec.topologySpreadConstraints[{index}]", _mapping(raw)
        most = term.get("maxSkew")
        if term.get("whenUnsatisfiable") == "DoNotSchedule" and type(most) is int and most >= 1:
            selector = _selector(term, labels, where, unread)
            if selector is not None:
                yield Term(str(term.get("topologyKey")), selector, min(most, _ALL), True, where)


def _selector(term: Mapping[str, Any], labels: Mapping[str, str], path: str, unread: list[str]) -> LabelSelector | None:
    """The pods that a term is about; None for none, or if it is too large to count."""
    raw = term.get("labelSelector")
    if not isinstance(raw, Mapping):
        return None
    expressions = _list(raw.get("matchExpressions"))
    keys = [*_list(term.get("matchLabelKeys")), *_list(term.get("mismatchLabelKeys"))]
    values = sum(len(_list(_mapping(one).get("values"))) for one in expressions)
    if len(_mapping(raw.get("matchLabels"))) + len(expressions) + len(keys) > MOST_REQUIREMENTS or values > MOST_VALUES:
        unread.append(path)
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


def _ports(spec: Mapping[str, Any]) -> Iterator[Port]:
    """The host ports, each once, in the order of the containers."""
    is_host = spec.get("hostNetwork") is True
    sidecars = [raw for raw in _list(spec.get("initContainers")) if _mapping(raw).get("restartPolicy") == "Always"]
    found: set[Port] = set()
    for container in (*_list(spec.get("containers")), *sidecars):
        for port in map(_mapping, _list(_mapping(container).get("ports"))):
            number = port.get("hostPort") or (port.get("containerPort") if is_host else None)
            protocol, address = str(port.get("protocol") or "TCP"), str(port.get("hostIP") or "")
            if type(number) is not int or not 0 < number <= _LAST_PORT or protocol not in _PROTOCOLS:
                continue
            one = protocol, number, "" if address in _ANY_ADDRESS else address
            if one not in found:
                found.add(one)
                yield one


def _list(raw: Any) -> Sequence[Any]:
    return raw if isinstance(raw, list) else ()


def _mapping(raw: Any) -> Mapping[str, Any]:
    # A dict is asked for first: the other question takes ten times as long.
    return raw if isinstance(raw, dict) or isinstance(raw, Mapping) else {}  # noqa: SIM101


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
        f"Counted are rules of pods about others of the gang on one node ({HOSTNAME_LABEL}){levels}: at most "
        f"{MOST_RULES}, of {MOST_REQUIREMENTS} requirements and {MOST_VALUES} values each, and {MOST_PORTS} host ports "
        "of a pod."
    )
