"""Where would it fit? A pod that does not exist, or a gang of such pods, and the engine's answer now.

1. The question is read: amounts as people write them (`8 cpu, 1 gpu`), how many NUMA nodes each pod may use, how many
   pods, and the level of the topology within which they must be together.
2. One pod is decided on as at its creation, several are placed together as a gang of bare pods: `review` answers the
   same about the same manifests (`manifests`).
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from webhook.engine.reason import FITS, REASONS
from webhook.formats.koordinator.intent import parse_numa_spec
from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, MIN_MEMBER, NUMA_TOPOLOGY_SPEC, POD_GROUP_NAME
from webhook.model.quantity import QuantityError
from webhook.model.raw import Raw
from webhook.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, amount, format_amount, format_list
from webhook.model.wording import did_you_mean, quoted
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.planner import Planner
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.decision import Verdict, decide_pod
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.placement_text import phrase, waiting
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.management import DEFAULT_NAMESPACE, Unmanaged, management_of
from webhook.views.node_map import Marks

MOST_PODS: Final = 512
"""Of a question: a gang of 512 is placed on 5,000 nodes in a few milliseconds (docs/performance.md)."""
_LONGEST: Final = 256
"""Characters of the amounts: 8 resources with names of 32."""
_MOST_RESOURCES: Final = 8
_NAMED: Final = 5
_NAME: Final = "asked-for"
_MEMORY: Final = 1 << 30
"""What a pod gets that asks for CPUs and no memory: kubelets align CPUs only of pods with requests of both."""
_BETWEEN: Final = re.compile(r",|\+|\band\b|\bof\b|\s")


class Spread(StrEnum):
    """How many NUMA nodes of its node a pod may use: the NUMA policy that it asks for."""

    ONE = "SingleNUMANode"
    FEWEST = "Restricted"
    ANY = ""
    """That of its node."""


@dataclass(frozen=True, slots=True)
class FitQuery:
    """What is asked for."""

    amounts: Mapping[str, int]
    """Of each pod, in engine units."""
    assumed: str
    """What was added to it, as a sentence; empty: nothing."""
    spread: Spread
    pods: int
    topology: str
    level: str
    """The node label of the level within which all pods must be; empty: anywhere."""

    @classmethod
    def read(
        cls, text: str, spread: str, pods: str, level: str, offered: Sequence[str], topology: Topology | None
    ) -> "FitQuery":
        """Read the fields of the form; raises UserError. offered: the resources of the cluster's nodes."""
        amounts = _amounts(text, offered)
        assumed = ""
        if CPU in amounts and MEMORY not in amounts:
            amounts[MEMORY] = _MEMORY
            assumed = "1Gi of memory is assumed: kubelets align CPUs only of pods that request both."
        if spread not in set(Spread):
            raise UserError("numa", f"{quoted(spread)} is no NUMA policy: {', '.join(filter(None, Spread))}.")
        if not (pods.isascii() and pods.isdecimal() and len(pods) <= 6 and 1 <= int(pods) <= MOST_PODS):
            raise UserError("pods", f"Ask for 1 to {MOST_PODS} pods, not {quoted(pods)}.")
        named = "" if topology is None else topology.name
        if level and level not in (() if topology is None else topology.node_labels):
            raise UserError("within", f"{quoted(level)} is no level of the topology.")
        return cls(amounts, assumed, Spread(spread), int(pods), named, level)

    def manifests(self) -> list[dict[str, Any]]:
        """The pods that are asked for."""
        annotations = {}
        if self.spread:
            annotations[NUMA_TOPOLOGY_SPEC] = json.dumps({"numaTopologyPolicy": self.spread})
        if self.pods > 1 or self.level:
            annotations |= {POD_GROUP_NAME: _NAME, MIN_MEMBER: str(self.pods)}
        if self.level:
            annotations |= {KAI_TOPOLOGY: self.topology, KAI_REQUIRED_PLACEMENT: self.level}
        listed = {name: format_amount(name, each) for name, each in self.amounts.items()}
        resources = {"requests": listed, "limits": listed}
        spec = {"containers": [{"name": "main", "image": "none", "resources": resources}]}
        return [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{_NAME}-{rank}", "namespace": DEFAULT_NAMESPACE, "annotations": annotations},
                "spec": spec,
            }
            for rank in range(self.pods)
        ]

    @property
    def text(self) -> str:
        """The amounts as they were understood."""
        return format_list(self.amounts)


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether and where it fits now."""

    query: FitQuery
    fits: bool
    message: str
    """As `review` words it."""
    marks: Marks
    of_one: bool
    """Whether the marks are those of one pod, each on its own."""


def answer(planner: Planner, query: FitQuery) -> Answer:
    """The engine's answer on the cluster as it is."""
    manifests = query.manifests()
    first = planner.read(_as_created(manifests[0], planner), None)
    decided = decide_pod(planner.state.snapshot().nodes, first.pod, first.intent, planner.rules)
    decision = decided.nodes
    assert decision is not None  # noqa: S101 # it is a new decision
    phrases = [phrase(reason, first.pod) for reason in REASONS]
    why = {n: phrases[reason] for n, reason in enumerate(decision.reason.tolist()) if reason != FITS}
    index = decision.snapshot.node_arrays.index
    alone = {index[each.node]: (1, frozenset(each.numa_nodes)) for each in decision.best(decision.fit_count)}
    if first.membership is None or decided.verdict is Verdict.DENY:
        fits = bool(alone) and decided.verdict is not Verdict.DENY
        return Answer(query, fits, decided.message, Marks(alone, why), of_one=True)
    members = tuple(_member(first, raw, rank) for rank, raw in enumerate(manifests))
    agreed = planner.agreed(GatedGang(first.membership, members))
    if agreed.disagreeing:
        found: Any = next(iter(agreed.disagreeing.values()))
    else:
        found = planner.placement(WaitingUnit(agreed.gang, agreed.minimum, agreed.assigned_members), {})
    if isinstance(found, NoAssignment):
        return Answer(query, False, found.text.removeprefix(waiting("")), Marks(alone, why), of_one=True)
    if not found.assigned:
        return Answer(query, False, found.message, Marks(alone, why), of_one=True)
    places: dict[int, tuple[int, frozenset[int]]] = {}
    for pod in found.pods():
        pods, numa_ids = places.get(index[pod.node], (0, frozenset()))
        places[index[pod.node]] = pods + 1, numa_ids | set(pod.numa_nodes)
    return Answer(query, True, found.message, Marks(places, why), of_one=False)


def _as_created(raw: Raw, planner: Planner) -> Raw:
    """The pod with what its creation records: the defaults of the settings and of its namespace. Raises UserError."""
    found = management_of(raw, planner.state.snapshot(), planner.rules)
    if isinstance(found, Unmanaged):
        return raw
    annotations = raw["metadata"]["annotations"]
    marks = found.marks(annotations, parse_numa_spec(annotations)[0])
    return {**raw, "metadata": {**raw["metadata"], "annotations": {**annotations, **marks}}}


def _member(first: GatedPod, raw: Raw, rank: int) -> GatedPod:
    """The first member under another name: to read each of 512 from its manifest takes a quarter of a second."""
    assert first.membership is not None  # noqa: S101 # the caller has checked it
    return replace(
        first,
        raw=raw,
        pod=replace(first.pod, name=raw["metadata"]["name"]),
        membership=replace(first.membership, rank=None),
    )


def _amounts(text: str, offered: Sequence[str]) -> dict[str, int]:
    """`8 cpu, 1 gpu`, `8 CPU + 1 GPU`, `16Gi`: amounts with resources, or parts of their names."""
    if len(text) > _LONGEST:
        raise UserError("fit", f"This is too long: {_LONGEST} characters are read.")
    words = [word for word in _BETWEEN.split(text) if word]
    if not words:
        raise UserError("fit", "Write what a pod requests, for example: 8 cpu, 1 gpu, 16Gi memory.")
    amounts: dict[str, int] = {}
    while words:
        quantity = words.pop(0)
        name = _resource(words.pop(0) if words and not words[0][0].isdecimal() else MEMORY, offered)
        try:
            found = amount(name, quantity)
        except QuantityError:
            raise UserError(
                "fit", f"{quoted(quantity)} is no amount of {name}. Write amounts as in 8 cpu, 1 gpu."
            ) from None
        if found <= 0:
            raise UserError("fit", f"Ask for more than {quoted(quantity)} {name}.")
        if name in amounts:
            raise UserError("fit", f"{name} is named twice.")
        amounts[name] = found
        if len(amounts) > _MOST_RESOURCES:
            raise UserError("fit", f"At most {_MOST_RESOURCES} resources are read.")
    return amounts


def _resource(word: str, offered: Sequence[str]) -> str:
    """The resource that a word names: its name, its last segment, or a part of that."""
    known = dict.fromkeys((CPU, MEMORY, EPHEMERAL_STORAGE, *offered))
    if word in known:
        return word
    plain = word.lower().removesuffix("s")
    for matches in (_named(plain, known, exact=True), _named(plain, known, exact=False)):
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UserError("fit", f"{quoted(word)} may be {' or '.join(matches[:_NAMED])}: write the whole name.")
    hint = did_you_mean(word, known) or f" They offer {', '.join(list(known)[:_NAMED])}."
    raise UserError("fit", f"No node offers {quoted(word)}.{hint}")


def _named(plain: str, known: Iterable[str], *, exact: bool) -> list[str]:
    segments = ((name, name.rpartition("/")[2].lower()) for name in known)
    return [name for name, segment in segments if (segment == plain if exact else plain in segment)]
