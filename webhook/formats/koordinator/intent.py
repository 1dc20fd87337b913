"""What a pod's annotations request of NUMA placement, in Koordinator's format.

Two annotations can have the same two fields, `scheduling.koordinator.sh/numa-topology-spec` (as shipped) and
`scheduling.koordinator.sh/resource-spec` (as proposed; it may also have CPU bind policies, see `cpu_bind`):

    {"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": "Required"}

1. Each annotation is read as JSON.
2. Each field is checked against its allowed values; null and absent leave it open. A policy "" is no requirement.
3. If both annotations set a field, the values must agree.
4. Open fields are filled from the defaults at the pod's creation: those of its namespace, then the settings.
   The mutating webhook writes these defaults into the pod (`topology-webhook.dev/numa-defaults`).
5. A pod with a policy is exclusive (Required) unless one of these sources says otherwise.

All faults are collected, so that the user can fix them at once. Source: koordinator apis/extension/numa_aware.go,
docs/proposals/scheduling/20240131-pod-level-numa-policy.md. Upstream validates none of this: an unknown policy reaches
its scheduler.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Self

from webhook.formats.koordinator import cpu_bind
from webhook.formats.koordinator.cpu_bind import NO_CPU_BIND, CPUBindPolicy, CPUBindSpec, CPUExclusivePolicy
from webhook.model.errors import UserError, UserErrors
from webhook.model.json_text import parse_object, shortened
from webhook.model.names import NUMA_DEFAULTS, NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from webhook.model.policy import Exclusive, NUMAPolicy
from webhook.model.wording import did_you_mean

POLICY_FIELD: Final = "numaTopologyPolicy"
EXCLUSIVE_FIELD: Final = "singleNUMANodeExclusive"

_ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    POLICY_FIELD: tuple(policy.koordinator for policy in NUMAPolicy if policy is not NUMAPolicy.NONE),
    EXCLUSIVE_FIELD: tuple(Exclusive),
}
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {**_ALLOWED, **cpu_bind.ALLOWED}
_EXAMPLE: Final = f'{{"{POLICY_FIELD}": "{NUMAPolicy.SINGLE_NUMA_NODE.koordinator}"}}'
_KNOWN_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    NUMA_TOPOLOGY_SPEC: frozenset(_ALLOWED),
    RESOURCE_SPEC: frozenset(_VALUES),
}

_MOST_WARNINGS: Final = 10
"""The most warnings of one kind. An annotation can have tens of thousands of fields."""


@dataclass(frozen=True, slots=True)
class NUMAIntent:
    """What a pod requests; None where it requests nothing."""

    policy: NUMAPolicy | None = None
    """Never NONE: a pod without a requirement has None here."""
    exclusive: Exclusive | None = None
    managed: bool = False
    """Whether an annotation of the pod mentions NUMA placement at all."""
    by_default: bool = False
    """Whether the policy is a default: neither the pod nor its owners set one."""
    cpu_bind: CPUBindSpec = NO_CPU_BIND
    """How its CPUs are to be bound to physical cores; it depends on the pod's labels whether that counts."""


NO_INTENT: Final = NUMAIntent()

# Our own text has about 80 characters.
_LONGEST_DEFAULTS: Final = 256


@dataclass(frozen=True, slots=True)
class NUMASpec:
    """The fields set by annotations or settings; None where a field is open."""

    policy: NUMAPolicy | None = None
    """NONE: explicitly no requirement."""
    exclusive: Exclusive | None = None
    cpu_bind: CPUBindSpec = NO_CPU_BIND
    """It has no default."""

    def over(self, defaults: Self) -> "NUMASpec":
        """The same spec, with open fields filled in from the defaults."""
        policy = defaults.policy if self.policy is None else self.policy
        return NUMASpec(policy, self.exclusive or defaults.exclusive, self.cpu_bind)

    def intent(self, defaults: "NUMASpec", *, managed: bool = False) -> NUMAIntent:
        """The intent of a pod with this spec and these defaults."""
        policy = self.over(defaults).policy or None
        by_default = (defaults.exclusive or Exclusive.REQUIRED) if policy else None
        is_default = policy is not None and self.policy is None
        return NUMAIntent(policy, self.exclusive or by_default, managed, is_default, self.cpu_bind)

    def to_json(self) -> str:
        """The annotation's value."""
        stated: dict[str, str] = {}
        if self.policy is not None:
            stated[POLICY_FIELD] = self.policy.koordinator
        if self.exclusive is not None:
            stated[EXCLUSIVE_FIELD] = self.exclusive.value
        return json.dumps(stated, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: object) -> "NUMASpec":
        """Read the output of `to_json`; anything else counts as empty."""
        if not isinstance(text, str) or len(text) > _LONGEST_DEFAULTS:
            return NO_SPEC
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError):
            return NO_SPEC
        stated = raw if isinstance(raw, dict) else {}
        policy, exclusive = stated.get(POLICY_FIELD), stated.get(EXCLUSIVE_FIELD)
        return NUMASpec(
            NUMAPolicy.from_koordinator(policy) if isinstance(policy, str) else None,
            Exclusive(exclusive) if exclusive in tuple(Exclusive) else None,
        )


NO_SPEC: Final = NUMASpec()


def parse_numa_intent(
    annotations: Mapping[str, object], path: str = "metadata.annotations"
) -> tuple[NUMAIntent, tuple[str, ...]]:
    """The intent and the warnings; raises UserError (UserErrors for several faults).

    `path`: the field that holds the annotations, for messages about a pod template.
    """
    read = tuple((name, annotations[name]) for name in _ANNOTATIONS if name in annotations)
    short = all(isinstance(text, str) and len(text) <= _REMEMBERED_CHARACTERS for _, text in read)
    return _remembered_intent(read, path) if short else _intent(read, path)


_ANNOTATIONS: Final = (NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, NUMA_DEFAULTS)
# No intent is that long.
_REMEMBERED_CHARACTERS: Final = 256


def _intent(read: tuple[tuple[str, object], ...], path: str) -> tuple[NUMAIntent, tuple[str, ...]]:
    annotations = dict(read)
    defaults = NUMASpec.from_json(annotations[NUMA_DEFAULTS]) if NUMA_DEFAULTS in annotations else NO_SPEC
    spec, managed, warnings = _read(annotations, path)
    return spec.intent(defaults, managed=managed), warnings


# A cluster's pods have few distinct annotations.
_remembered_intent = lru_cache(maxsize=1024)(_intent)


def parse_numa_spec(
    annotations: Mapping[str, object], path: str = "metadata.annotations"
) -> tuple[NUMASpec, tuple[str, ...]]:
    """The fields that the annotations set, and the warnings; raises UserError as `parse_numa_intent` does."""
    spec, _, warnings = _read(annotations, path)
    return spec, warnings


def _read(annotations: Mapping[str, object], path: str) -> tuple[NUMASpec, bool, tuple[str, ...]]:
    """The fields that are set, whether any annotation mentions NUMA placement, and the warnings."""
    if NUMA_TOPOLOGY_SPEC not in annotations and RESOURCE_SPEC not in annotations:
        return NO_SPEC, False, ()
    faults: list[UserError] = []
    warnings: list[str] = []
    stated: dict[str, dict[str, str]] = {}  # annotation -> field -> value, valid; "" of a policy among them
    managed = NUMA_TOPOLOGY_SPEC in annotations
    for annotation in _KNOWN_FIELDS:
        if annotation not in annotations:
            continue
        place = f"{path}[{annotation}]"
        try:
            fields, repeated = parse_object(annotations[annotation], place, example=_EXAMPLE)
        except UserError as fault:
            faults.append(fault)
            continue
        warnings += [
            f"{place}: {shortened(field)} is written more than once; the last one counts."
            for field in repeated[:_MOST_WARNINGS]
        ]
        fields = _known_fields(annotation, fields, place, warnings)
        managed = managed or not _ALLOWED.keys().isdisjoint(fields)
        known = _ALLOWED if annotation == NUMA_TOPOLOGY_SPEC else _VALUES
        values = {field: _value(field, fields.get(field), place, faults) for field in known}
        stated[annotation] = {field: value for field, value in values.items() if value is not None}
    merged = {field: _agreed(field, stated, path, faults) for field in _ALLOWED}
    if faults:
        raise faults[0] if len(faults) == 1 else UserErrors(faults)
    policy, exclusive = merged[POLICY_FIELD], merged[EXCLUSIVE_FIELD]
    spec = NUMASpec(
        None if policy is None else NUMAPolicy.from_koordinator(policy),
        Exclusive(exclusive) if exclusive else None,
        _cpu_bind(stated.get(RESOURCE_SPEC, {})),
    )
    return spec, managed, tuple(warnings)


def _cpu_bind(stated: Mapping[str, str]) -> CPUBindSpec:
    required, preferred = (stated.get(field) for field in (cpu_bind.REQUIRED_FIELD, cpu_bind.PREFERRED_FIELD))
    exclusive = stated.get(cpu_bind.EXCLUSIVE_CPU_FIELD)
    return CPUBindSpec(
        CPUBindPolicy(required) if required else None,
        CPUBindPolicy(preferred) if preferred and preferred != cpu_bind.NO_POLICY else None,
        CPUExclusivePolicy(exclusive) if exclusive else None,
    )


def _known_fields(annotation: str, raw: Mapping[str, Any], place: str, warnings: list[str]) -> dict[str, Any]:
    """The fields by their proper names. Koordinator ignores case in names, so a wrong case is only a warning."""
    known = _KNOWN_FIELDS[annotation]
    proper = {name.lower(): name for name in known}
    fields: dict[str, Any] = {}
    unknown: list[str] = []
    for name, value in raw.items():
        if name in known:
            fields[name] = value
        elif (meant := proper.get(name.lower())) is not None:
            warnings.append(f"{place}: {name} is read as {meant}; write it so.")
            fields.setdefault(meant, value)
        else:
            unknown.append(name)
    warnings += [
        f"{place}: unknown field {shortened(name)} is ignored.{did_you_mean(name, known)}"
        for name in unknown[:_MOST_WARNINGS]
    ]
    if more := len(unknown[_MOST_WARNINGS:]):
        warnings.append(f"{place}: {more} more unknown fields are ignored.")
    return fields


def _value(field: str, value: object, place: str, faults: list[UserError]) -> str | None:
    """The value if it is allowed (or an empty policy); None if it is open or a fault."""
    if value is None or value == "":
        return "" if value == "" and field == POLICY_FIELD else None
    allowed = _VALUES[field]
    if isinstance(value, str) and value in allowed:
        return value
    cure = f' Allowed are {", ".join(allowed)}, and "" for no requirement.'
    if isinstance(value, str):
        faults.append(
            UserError(f"{place}.{field}", f'"{shortened(value)}" is unknown.{cure}{did_you_mean(value, allowed)}')
        )
    else:
        faults.append(UserError(f"{place}.{field}", f"{shortened(repr(value))} is not a string.{cure}"))
    return None


def _agreed(field: str, stated: Mapping[str, Mapping[str, str]], path: str, faults: list[UserError]) -> str | None:
    """The value both annotations agree on; an empty one contradicts none."""
    values = {annotation: fields[field] for annotation, fields in stated.items() if fields.get(field)}
    if len(set(values.values())) > 1:
        said = " and ".join(f"{value} in {annotation}" for annotation, value in values.items())
        faults.append(UserError(path, f"{field} contradicts itself: {said}. Keep one of the two."))
        return None
    empty = "" if any(field in fields for fields in stated.values()) else None
    return next(iter(values.values()), empty)
