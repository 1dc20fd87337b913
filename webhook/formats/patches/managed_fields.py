"""The managed fields record: digests of what we added to a pod's node affinity and nodeSelector, to remove it again.

A pod can be mutated a second time: another webhook changed it and the API server calls again, or its mutated YAML is
applied again, perhaps months later and to another cluster. Mutation then starts from what the user wrote. So the
annotation `topology-webhook.dev/steered` has a digest of every requirement and preference that was added, and the
number of required terms before. Anything without a digest belongs to the user or another webhook, and is never changed.

    Removing our additions from a mutated pod gives the original pod, and mutating that gives the mutated pod again.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, Self

from webhook.formats.patches.affinity_patch import (
    EXPRESSIONS,
    FIELDS,
    PREFERRED,
    REQUIRED,
    Constraint,
    Term,
    is_empty,
    node_affinity,
    required_terms,
)
from webhook.model.limits import MAX_ADDED, MAX_TERMS
from webhook.model.names import HOSTNAME_LABEL, MANAGED_FIELDS

# 32 bits: a user's requirement is mistaken for one of ours once in 2**32 / 74 pods, and the digests of the maximum (64
# nodes, 10 preferences) take less than 1 KiB.
_DIGEST_BYTES = 4


# Digests of 1,000 alternatives, the maximum of the setting, and of 10 preferences. A longer text is not ours.
_LONGEST = 32 * 1024
_MOST_ALTERNATIVES = 1_000
# The maximum in a pod of ours: longer lists are denied.
_MOST_TERMS = MAX_TERMS + MAX_ADDED


@dataclass(frozen=True, slots=True)
class ManagedFields:
    """Digests of what was added to a pod: the requirements of each alternative, the preferences, a selected hostname.

    terms: the number of required terms before. Those that follow are copies for the further alternatives.
    """

    terms: int = 0
    alternatives: tuple[tuple[str, ...], ...] = ()
    preferred: tuple[str, ...] = ()
    hostname: str = ""

    @classmethod
    def of_hostname(cls, hostname: str) -> Self:
        """The record of a hostname that is added to a pod's nodeSelector."""
        return cls(hostname=_digest(hostname))

    @classmethod
    def of(cls, constraint: Constraint, terms: int) -> Self:
        """The record of a constraint that is added to a pod. terms: the number of its required terms."""
        return cls(
            terms=terms if constraint.alternatives else 0,
            alternatives=tuple(
                tuple(_digest(requirement) for requirements in term.values() for requirement in requirements)
                for term in constraint.alternatives
            ),
            preferred=tuple(map(_digest, constraint.preferred)),
        )

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Parse the annotation. An invalid text gives an empty record."""
        try:
            if len(text or "") > _LONGEST:
                return cls()
            raw = json.loads(text or "{}")
            return cls(
                terms=int(raw.get("terms", 0)),
                alternatives=tuple(
                    tuple(map(str, digests)) for digests in islice(raw.get("required", ()), _MOST_ALTERNATIVES)
                ),
                preferred=tuple(map(str, raw.get("preferred", ()))),
                hostname=str(raw.get("hostname", "")),
            )
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return cls()

    def after(self, pod: Mapping[str, Any]) -> "ManagedFields":
        """The record of all that is added to a pod that has an earlier one: it was kept off some nodes while it waited.

        That was one alternative, to which others were added. An earlier record that does not fit the pod is dropped.
        """
        text = ((pod.get("metadata") or {}).get("annotations") or {}).get(MANAGED_FIELDS)
        earlier = ManagedFields.parse(text) if text else ManagedFields()
        if len(earlier.alternatives) != 1 or without_ours(pod, earlier) is pod:
            return self
        first = earlier.alternatives[0]
        return ManagedFields(
            earlier.terms,
            tuple((*first, *more) for more in self.alternatives) or earlier.alternatives,
            (*earlier.preferred, *self.preferred),
            self.hostname or earlier.hostname,
        )

    def added_to(self, pod: Mapping[str, Any]) -> Constraint:
        """What the pod's node affinity has of these additions. Requirements of its user's terms are left out."""
        terms, preferred = required_terms(pod) or (), node_affinity(pod).get(PREFERRED) or ()
        if not self or max(len(terms), len(preferred)) > _MOST_TERMS:
            return Constraint()
        required, liked = {digest for one in self.alternatives for digest in one}, set(self.preferred)
        alternatives = (
            {where: [one for one in term.get(where) or () if _digest(one) in required] for where in _LISTS}
            for term in terms
            if term
        )
        return Constraint(
            tuple(term for term in alternatives if not is_empty(term)) if required else (),
            tuple(term for term in preferred if _digest(term) in liked) if liked else (),
        )

    def __bool__(self) -> bool:
        return bool(self.alternatives or self.preferred or self.hostname)

    def text(self) -> str:
        """The annotation's value: JSON in one line."""
        raw = {"terms": self.terms, "required": self.alternatives, "preferred": self.preferred}
        raw["hostname"] = self.hostname
        return json.dumps({key: value for key, value in raw.items() if value}, separators=(",", ":"))


def without_ours(pod: Mapping[str, Any], managed_fields: ManagedFields) -> Mapping[str, Any]:
    """A copy of the pod without the additions in the record, and without fields that are then empty."""
    return _without_hostname(_without_terms(pod, managed_fields), managed_fields)


def without_our_preferences(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod without the preferred terms that we added, because they are not its user's preferences.

    Requirements apply, even those that we added.
    """
    annotations: Mapping[str, str] = (pod.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(MANAGED_FIELDS)
    preferred = ManagedFields.parse(text).preferred if text else ()
    return without_ours(pod, ManagedFields(preferred=preferred)) if preferred else pod


def _without_hostname(pod: Mapping[str, Any], managed_fields: ManagedFields) -> Mapping[str, Any]:
    selector: Mapping[str, str] = (pod.get("spec") or {}).get("nodeSelector") or {}
    hostname = selector.get(HOSTNAME_LABEL)
    if not managed_fields.hostname or hostname is None or _digest(hostname) != managed_fields.hostname:
        return pod
    spec = dict(pod["spec"])
    _keep(spec, "nodeSelector", {key: value for key, value in selector.items() if key != HOSTNAME_LABEL})
    return {**pod, "spec": spec}


def _without_terms(pod: Mapping[str, Any], managed_fields: ManagedFields) -> Mapping[str, Any]:
    held = node_affinity(pod)
    if not managed_fields or max(len(required_terms(pod) or ()), len(held.get(PREFERRED) or ())) > _MOST_TERMS:
        return pod
    kept = dict(held)
    if managed_fields.alternatives and (terms := required_terms(pod)):
        left = list(_users(terms, managed_fields))
        _keep(kept, REQUIRED, {**held[REQUIRED], "nodeSelectorTerms": left} if left else None)
    if preferred := held.get(PREFERRED):
        _keep(kept, PREFERRED, _without(preferred, managed_fields.preferred))
    if kept == held:
        return pod
    affinity = dict(pod["spec"]["affinity"])
    _keep(affinity, "nodeAffinity", kept)
    spec = dict(pod["spec"])
    _keep(spec, "affinity", affinity)
    return {**pod, "spec": spec}


def _keep(held: dict[str, Any], key: str, value: Any) -> None:
    if value:
        held[key] = value
    else:
        del held[key]


def _users(terms: Sequence[Term | None], managed_fields: ManagedFields) -> Iterator[Term | None]:
    """The required terms without our requirements, without the copies, and without terms that were only ours."""
    alternatives = [(frozenset(digests), digests) for digests in dict.fromkeys(managed_fields.alternatives)]
    for position, term in enumerate(terms):
        if term is None or is_empty(term):
            yield term
            continue
        is_users = position < managed_fields.terms
        if is_users:
            ours = next(iter(managed_fields.alternatives), None)
        else:
            there = _digests_in(term)
            ours = next((digests for needed, digests in alternatives if needed <= there), None)
        if ours is None:
            yield term
        elif is_users or not managed_fields.terms:
            left = {where: _without(held, ours) if where in _LISTS and held else held for where, held in term.items()}
            left = {where: held for where, held in left.items() if held or not term[where]}
            if not is_empty(left):
                yield left


_LISTS = (EXPRESSIONS, FIELDS)


def _digests_in(term: Term) -> set[str]:
    return {_digest(requirement) for where in _LISTS for requirement in term.get(where) or ()}


def _without(held: Sequence[Any], digests: Iterable[str]) -> list[Any]:
    """The list without one item per digest: the last such item, because ours were appended."""
    ours = Counter(digests)
    left = []
    for item in reversed(held):
        digest = _digest(item)
        if ours[digest]:
            ours[digest] -= 1
        else:
            left.append(item)
    return left[::-1]


# Created once: json.dumps would create an encoder for each call.
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def _digest(item: object) -> str:
    return blake2b(_canonical(item).encode(), digest_size=_DIGEST_BYTES).hexdigest()
