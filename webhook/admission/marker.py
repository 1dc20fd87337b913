"""What is ours in a pod's node affinity: written down as digests beside it, recognised and taken out again.

A pod can come by a second time: another webhook changed it and the API server calls again, or its mutated YAML is
applied anew, perhaps months later and to another cluster. Steering then starts from what the user wrote. So the
annotation `topology-webhook.dev/steered` holds a digest of every requirement and preference that was added, and how
many required terms the pod had before. What the digests do not cover is the user's or another webhook's: never touched.

    taking out what is ours from a steered pod gives the pod as it was before; steering that again gives the steered pod
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

from webhook.admission.affinity import (
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

# 32 bits: a requirement of the user's is taken for one of ours by chance once in 2**32 / 74 pods, and the digests of as
# many as there can be (64 nodes, 10 preferences) still make less than 1 KiB.
_DIGEST_BYTES = 4


@dataclass(frozen=True, slots=True)
class Marker:
    """Digests of what was added to a pod: per alternative its requirements, then the preferences.

    `terms` is the number of required terms before: those that follow are copies, made for the further alternatives.
    """

    terms: int = 0
    alternatives: tuple[tuple[str, ...], ...] = ()
    preferred: tuple[str, ...] = ()

    @classmethod
    def of(cls, constraint: Constraint, terms: int) -> Self:
        """The marker of a constraint that is added to a pod with so many required terms."""
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
        """The marker as it stands in the annotation. What is no marker of ours marks nothing."""
        try:
            raw = json.loads(text or "{}")
            return cls(
                terms=int(raw.get("terms", 0)),
                alternatives=tuple(tuple(map(str, digests)) for digests in raw.get("required", ())),
                preferred=tuple(map(str, raw.get("preferred", ()))),
            )
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return cls()

    def __bool__(self) -> bool:
        return bool(self.alternatives or self.preferred)

    def text(self) -> str:
        """The annotation's value: JSON in one line."""
        raw = {"terms": self.terms, "required": self.alternatives, "preferred": self.preferred}
        return json.dumps({key: value for key, value in raw.items() if value}, separators=(",", ":"))


def without_ours(pod: Mapping[str, Any], marker: Marker) -> Mapping[str, Any]:
    """The pod without what the marker says is ours in its node affinity; what that leaves empty goes with it.

    The argument is not altered.
    """
    if not marker:
        return pod
    held = node_affinity(pod)
    kept = dict(held)
    if terms := required_terms(pod):
        left = list(_users(terms, marker))
        _keep(kept, REQUIRED, {**held[REQUIRED], "nodeSelectorTerms": left} if left else None)
    if preferred := held.get(PREFERRED):
        _keep(kept, PREFERRED, _without(preferred, marker.preferred))
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


def _users(terms: Sequence[Term | None], marker: Marker) -> Iterator[Term | None]:
    """The required terms without our requirements, without the copies, and without terms that were ours alone."""
    for position, term in enumerate(terms):
        if term is None or is_empty(term):
            yield term
            continue
        is_users = position < marker.terms
        candidates = marker.alternatives[:1] if is_users else marker.alternatives
        ours = next((digests for digests in candidates if is_users or _has(term, digests)), None)
        if ours is None:
            yield term
        elif is_users or not marker.terms:
            left = {where: _without(held, ours) if where in _LISTS and held else held for where, held in term.items()}
            left = {where: held for where, held in left.items() if held or not term[where]}
            if not is_empty(left):
                yield left


_LISTS = (EXPRESSIONS, FIELDS)


def _has(term: Term, digests: Iterable[str]) -> bool:
    return set(digests) <= {_digest(requirement) for where in _LISTS for requirement in term.get(where) or ()}


def _without(held: Sequence[Any], digests: Iterable[str]) -> list[Any]:
    """The list without one item per digest: the last such item, since ours were appended."""
    ours = Counter(digests)
    left = []
    for item in reversed(held):
        digest = _digest(item)
        if ours[digest]:
            ours[digest] -= 1
        else:
            left.append(item)
    return left[::-1]


# Made once: json.dumps would make an encoder for each call.
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def _digest(item: object) -> str:
    return blake2b(_canonical(item).encode(), digest_size=_DIGEST_BYTES).hexdigest()
