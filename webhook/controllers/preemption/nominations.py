"""Nominations of pods behind the gate that no hold explains: kube-scheduler would keep their room free for ever.

They are left over if a write was lost, if a member of a gang is deleted, or if the last leader had not evicted a pod.
Nobody else nominates a node for a gated pod: schedulers do not try it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from webhook.controllers.preemption.holds import Holds


class Nomination(NamedTuple):
    """A nomination of one version of a pod: of a later one, whoever wrote that is in charge."""

    key: str
    uid: str
    version: str


def without_hold(gated: Mapping[str, Mapping[str, Any]], keys: Iterable[str], holds: Holds) -> list[Nomination]:
    """Those of these pods namespace/name. gated: the pods that wait behind our gate alone."""
    found = []
    for key in keys:
        raw = gated.get(key)
        if raw is None or not (raw.get("status") or {}).get("nominatedNodeName") or holds.of_member(key) is not None:
            continue
        metadata = raw["metadata"]
        found.append(Nomination(key, metadata.get("uid", ""), metadata.get("resourceVersion", "")))
    return found
