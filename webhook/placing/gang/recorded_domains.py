"""The domains that the placement of a gang recorded in its members: `{"example.com/rack": "r1"}`, coarse to fine.

The records also cover a gang that another replica assigned. A pod that was bound while no webhook answered may carry
any text.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from webhook.engine.gang.result import Path
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.model.errors import UserError
from webhook.model.json_text import parse_object
from webhook.model.names import DOMAIN

# A topology has at most 16 levels (KAI-Scheduler's and Kueue's CRDs). A record with more is not ours.
_MOST_LEVELS: Final = 16


def path_down_to(member: AssignedMember, labels: Sequence[str]) -> Path | None:
    """The recorded path along these labels; None if the placement did not record all of them."""
    values = _values(member.domain)
    return tuple((label, str(values[label])) for label in labels) if values.keys() >= set(labels) else None


def is_outside(member: AssignedMember, known: Collection[str], labels: Sequence[str]) -> bool:
    """Whether we placed the member, in a topology with the known labels, on a node that lacks some of these labels."""
    recorded = _values(member.domain).keys()
    return member.assigned and recorded <= set(known) and not recorded >= set(labels)


def common_domain(members: Iterable[AssignedMember]) -> Path:
    """The finest domain that all members recorded; empty if there is none."""
    common: Path | None = None
    for text in {member.domain for member in members}:
        path = tuple((label, str(value)) for label, value in _values(text).items())[:_MOST_LEVELS]
        common = path if common is None else _shared(common, path)
    return common or ()


def _shared(one: Path, other: Path) -> Path:
    """What two paths have in common, from the coarsest level on."""
    for length, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return one[:length]
    return one[: len(other)]


# With hostnames as the finest level, a large cluster has a text for each of its 5,000 nodes.
@lru_cache(maxsize=8192)
def _values(text: str) -> Mapping[str, Any]:
    try:
        return parse_object(text, DOMAIN)[0]
    except UserError:
        return {}
