"""Kueue's topology annotations on a pod or a pod template, read as ours: the same request in KAI-Scheduler's names.

    kueue.x-k8s.io/podset-required-topology: cloud.example.com/rack    -> kai.scheduler/topology-required-placement
    kueue.x-k8s.io/podset-preferred-topology: cloud.example.com/rack   -> kai.scheduler/topology-preferred-placement
    kueue.x-k8s.io/podset-slice-required-topology: cloud.example.com/host
    kueue.x-k8s.io/podset-slice-size: "4"                              -> kai.scheduler/segment-…
    kueue.x-k8s.io/podset-slice-required-topology-constraints: [..]    -> kai.scheduler/segment-… with lists
    kueue.x-k8s.io/podset-unconstrained-topology: "true"               -> managed, no level

1. The values are checked as Kueue's webhooks check them.
2. Kueue finds the Topology by the flavor of a queue. Here it is the one that has the named levels, or the one that
   `kai.scheduler/topology` names beside them.
3. If the same annotations name levels or segments in our names, too, ours count.

Source: kueue pkg/controller/jobframework/tas_validation.go, site/content/en/docs/concepts/topology_aware_scheduling.md.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

from webhook.formats.topology import Topology, with_levels
from webhook.formats.workload.topology_request import MAX_LAYERS
from webhook.model.errors import UserError, UserErrors
from webhook.model.fields import whole_number
from webhook.model.json_text import shortened
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    KUEUE_DOMAIN,
    KUEUE_MANAGED,
    KUEUE_POD_SET,
    KUEUE_POD_SET_GROUP,
    KUEUE_PREFERRED,
    KUEUE_QUEUE,
    KUEUE_REQUIRED,
    KUEUE_SLICE_CONSTRAINTS,
    KUEUE_SLICE_REQUIRED,
    KUEUE_SLICE_SIZE,
    KUEUE_UNCONSTRAINED,
    KUEUE_WORKLOAD,
    MANAGED,
)
from webhook.model.wording import counted, did_you_mean

_EXAMPLE: Final = (
    '[{"topology": "cloud.example.com/block", "size": 16}, {"topology": "kubernetes.io/hostname", "size": 4}]'
)
_MAX_SIZE: Final = 150_000
"""More pods than any cluster runs (webhook.formats.workload.common_fields)."""


class Layer(NamedTuple):
    """Slices of one size."""

    label: str
    """The node label of the level that one domain of holds a slice."""
    size: int


def layers_of(text: str, path: str) -> tuple[Layer, ...]:
    """The layers that the annotation lists: slices inside slices, from coarse to fine. Raises UserError.

        kueue.x-k8s.io/podset-slice-required-topology-constraints: |
          [{"topology": "cloud.example.com/block", "size": 16}, {"topology": "kubernetes.io/hostname", "size": 4}]

    Source: kueue pkg/controller/jobframework/tas_validation.go, validateSliceRequiredTopologyConstraintsAnnotation.
    Kueue's own example writes sizes in quotes; they are read, too.

    path: the annotation's.
    """
    try:
        entries = json.loads(text)
    except RecursionError:
        raise UserError(path, f"The JSON is nested too deeply. Write a list such as {_EXAMPLE}.") from None
    except ValueError as error:
        why = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UserError(path, f'"{shortened(text)}" is not valid JSON{why}. Write a list such as {_EXAMPLE}.') from None
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_LAYERS:
        given = f"{len(entries)} layers" if isinstance(entries, list) else f'"{shortened(text)}"'
        raise UserError(path, f"This must be a list of 1 to {MAX_LAYERS} layers, not {given}, such as {_EXAMPLE}.")
    layers = tuple(_layer(entry, index, path) for index, entry in enumerate(entries))
    for coarse, fine in pairwise(layers):
        if fine.size >= coarse.size or coarse.size % fine.size:
            raise UserError(
                path,
                f"Slices of {counted(fine.size, 'pod')} do not divide those of {coarse.size} before them. "
                "List large ones first.",
            )
    if len({layer.label for layer in layers}) < len(layers):
        raise UserError(path, "Two layers have the same level. Name each level once, from coarse to fine.")
    return layers


def _layer(entry: Any, index: int, path: str) -> Layer:
    if not isinstance(entry, dict):
        raise UserError(
            path, f"Layer {index} is not an object with topology and size. Write a list such as {_EXAMPLE}."
        )
    if "sizes" in entry:
        raise UserError(path, f"Layer {index} has sizes. Slices of different sizes are not supported: write one size.")
    label, size = entry.get("topology"), entry.get("size")
    if not isinstance(label, str) or not label or "," in label:
        raise UserError(path, f"Layer {index} has no topology. Write the node label of a level.")
    number = whole_number(size) if isinstance(size, str) else size
    if type(number) is not int or not 1 <= number <= _MAX_SIZE:
        shown = shortened(json.dumps(size))
        raise UserError(
            path, f"Layer {index} has the size {shown}. Write a whole number of pods from 1 to {_MAX_SIZE}."
        )
    return Layer(label, number)


KUEUE_ANNOTATIONS: Final = (
    KUEUE_REQUIRED,
    KUEUE_PREFERRED,
    KUEUE_UNCONSTRAINED,
    KUEUE_SLICE_REQUIRED,
    KUEUE_SLICE_SIZE,
    KUEUE_SLICE_CONSTRAINTS,
    KUEUE_POD_SET_GROUP,
)
"""Kueue's annotations that request a topology."""

_AS_OURS: Final = {
    KUEUE_REQUIRED: KAI_REQUIRED_PLACEMENT,
    KUEUE_PREFERRED: KAI_PREFERRED_PLACEMENT,
    KUEUE_SLICE_REQUIRED: KAI_SEGMENT_REQUIRED_PLACEMENT,
    KUEUE_SLICE_SIZE: KAI_SEGMENT_SIZE,
}
_OURS: Final = (*_AS_OURS.values(), KAI_SEGMENT_PREFERRED_PLACEMENT)
_LEVELS: Final = (KUEUE_REQUIRED, KUEUE_PREFERRED, KUEUE_SLICE_REQUIRED)
_SLICES: Final = (KUEUE_SLICE_REQUIRED, KUEUE_SLICE_SIZE, KUEUE_SLICE_CONSTRAINTS)
_ONE_OF: Final = (KUEUE_REQUIRED, KUEUE_PREFERRED, KUEUE_UNCONSTRAINED)
# What Go's strconv.ParseBool takes.
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
# More pods than any cluster runs (webhook.formats.workload.common_fields).
# A message names so many levels or topologies.
_MOST_NAMED: Final = 16


@dataclass(frozen=True, slots=True)
class AsOurs:
    """Kueue's annotations read as ours."""

    asked: Mapping[str, str]
    """The annotations of ours that they stand for."""
    added: Mapping[str, str]
    """Those of them that are not there already."""
    warnings: tuple[str, ...] = ()
    group: str = ""
    """The pod set group; empty if none is named."""


NOTHING: Final = AsOurs({}, {})


def as_ours(annotations: Mapping[str, Any], path: str, topologies: Mapping[str, Topology]) -> AsOurs:
    """Kueue's annotations among these as ours. path: their path, for messages. Raises UserError."""
    asked = {key: annotations[key] for key in KUEUE_ANNOTATIONS if key in annotations}
    if not asked:
        return NOTHING
    own = [key for key in _OURS if annotations.get(key)]
    try:
        ours = _read(asked, annotations.get(KAI_TOPOLOGY) or "", path, topologies)
    except UserError:
        if not own:
            raise
        ours = NOTHING
    # They are equal if they were read before: when the webhook is called again.
    if own and not (ours.asked and ours.asked.items() <= annotations.items()):
        text = f"{_listed(path, own)} counts, and {_listed(path, asked)} is not read. Keep one of the two."
        return AsOurs({}, {}, (text,))
    return replace(ours, added={key: text for key, text in ours.asked.items() if key not in annotations})


def left_to_kueue(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations without those of ours that only stand for Kueue's."""
    stand_ins = {ours for key, ours in _AS_OURS.items() if annotations.get(key, "") == annotations.get(ours)}
    stand_ins |= {ours for ours, text in _nested(annotations).items() if annotations.get(ours) == text}
    if KUEUE_UNCONSTRAINED in annotations:
        stand_ins.add(MANAGED)
    left = {key: text for key, text in annotations.items() if key not in stand_ins}
    if stand_ins and not any(left.get(key) for key in _OURS):
        left.pop(KAI_TOPOLOGY, None)
    return left


def why_kueues(raw: Mapping[str, Any]) -> str | None:
    """What of an object shows that Kueue manages it: a label, an annotation or a gate; None: nothing does."""
    metadata = raw.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if not isinstance(labels, Mapping) or not isinstance(annotations, Mapping):
        return None
    for label in (KUEUE_QUEUE, KUEUE_POD_SET):
        if labels.get(label):
            return f"label {label}"
    if labels.get(KUEUE_MANAGED) == "true":
        return f"label {KUEUE_MANAGED}"
    for annotation in (KUEUE_QUEUE, KUEUE_WORKLOAD):
        if annotations.get(annotation):
            return f"annotation {annotation}"
    return next((f"gate {gate}" for gate in _gates(raw.get("spec")) if gate.startswith(KUEUE_DOMAIN)), None)


def owner_is_kueues(kueues: str) -> str:
    """A clause for a pod whose owner is Kueue's. kueues: what shows it."""
    return f"its topology annotations are left to Kueue, which manages its owner ({kueues})"


def _gates(spec: object) -> Iterator[str]:
    """The names of the gates, if the object is a pod: the spec of a workload may be anything."""
    gates = spec.get("schedulingGates") if isinstance(spec, Mapping) else None
    for gate in gates if isinstance(gates, list) else ():
        if isinstance(gate, Mapping) and isinstance(name := gate.get("name"), str):
            yield name


def asks_kueue(annotations: Mapping[str, Any]) -> bool:
    """Whether any of these annotations is a topology request in Kueue's names."""
    return any(key in annotations for key in KUEUE_ANNOTATIONS)


def _read(asked: Mapping[str, Any], topology: str, path: str, topologies: Mapping[str, Topology]) -> AsOurs:
    """Steps 1 and 2. Raises UserErrors with all faults."""
    faults = [
        UserError(f"{path}[{key}]", f"This must be text, not {shortened(repr(text))}. Write it in quotes.")
        for key, text in asked.items()
        if not isinstance(text, str)
    ]
    faults = faults or list(_faults(asked, path))
    if faults:
        raise faults[0] if len(faults) == 1 else UserErrors(faults)
    levels = [(key, asked[key]) for key in _LEVELS if key in asked]
    if text := asked.get(KUEUE_SLICE_CONSTRAINTS):
        levels += [
            (KUEUE_SLICE_CONSTRAINTS, layer.label) for layer in layers_of(text, f"{path}[{KUEUE_SLICE_CONSTRAINTS}]")
        ]
    if not levels:
        return AsOurs({MANAGED: "all"}, {}) if asked.get(KUEUE_UNCONSTRAINED) in _TRUE else NOTHING
    name = _topology(levels, topology, path, topologies)
    added = {_AS_OURS[key]: text for key, text in asked.items() if key in _AS_OURS} | _nested(asked)
    return AsOurs({KAI_TOPOLOGY: name, **added}, {}, group=asked.get(KUEUE_POD_SET_GROUP, ""))


def _faults(asked: Mapping[str, str], path: str) -> Iterator[UserError]:
    """Step 1: what Kueue's webhooks deny."""
    if len(several := [key for key in _ONE_OF if key in asked]) > 1:
        text = f"These contradict each other: {', '.join(several)}. Keep one of them."
        if {KUEUE_REQUIRED, KUEUE_PREFERRED} <= set(several):
            text += f" To ask for both levels, write {KAI_REQUIRED_PLACEMENT} and {KAI_PREFERRED_PLACEMENT} instead."
        yield UserError(path, text)
    unconstrained = asked.get(KUEUE_UNCONSTRAINED)
    if unconstrained is not None and unconstrained not in {*_TRUE, *_FALSE}:
        yield _fault(
            path, KUEUE_UNCONSTRAINED, f'"{shortened(unconstrained)}" is not a boolean. Write "true" or "false".'
        )
    for key in _LEVELS:
        if key in asked and not asked[key]:
            yield _fault(path, key, "The level is empty. Write the node label of a level.")
    if KUEUE_SLICE_CONSTRAINTS in asked:
        yield from _faults_of_layers(asked, path)
    size, sliced = asked.get(KUEUE_SLICE_SIZE), KUEUE_SLICE_REQUIRED in asked
    if size is not None and not 1 <= (whole_number(size) or 0) <= _MAX_SIZE:
        text = f'"{shortened(size)}" is not a size. Write a whole number of pods from 1 to {_MAX_SIZE}, such as "4".'
        yield _fault(path, KUEUE_SLICE_SIZE, text)
    if sliced and size is None:
        yield _fault(path, KUEUE_SLICE_SIZE, f"{KUEUE_SLICE_REQUIRED} needs a size. Write it in this annotation.")
    if size is not None and not sliced:
        yield _fault(path, KUEUE_SLICE_SIZE, f"A size of slices needs a level. Write it in {KUEUE_SLICE_REQUIRED}.")
    yield from _faults_of_group(asked, path)


def _faults_of_layers(asked: Mapping[str, str], path: str) -> Iterator[UserError]:
    for key in (KUEUE_SLICE_REQUIRED, KUEUE_SLICE_SIZE):
        if key in asked:
            yield _fault(path, key, f"{KUEUE_SLICE_CONSTRAINTS} counts instead of this. Keep one of the two.")
    try:
        layers_of(asked[KUEUE_SLICE_CONSTRAINTS], f"{path}[{KUEUE_SLICE_CONSTRAINTS}]")
    except UserError as error:
        yield error


def kueues_names(annotations: Mapping[str, Any]) -> dict[str, str]:
    """The names of ours that `as_ours` adds to these annotations, with the name of Kueue that each stands for."""
    names = {ours: key for key, ours in _AS_OURS.items() if key in annotations}
    if KUEUE_SLICE_CONSTRAINTS in annotations:
        names |= dict.fromkeys((KAI_SEGMENT_SIZE, KAI_SEGMENT_REQUIRED_PLACEMENT), KUEUE_SLICE_CONSTRAINTS)
    return {ours: key for ours, key in names.items() if ours not in annotations}


def _nested(annotations: Mapping[str, str]) -> dict[str, str]:
    """Slices inside slices as ours; {} if there are none, or invalid ones."""
    try:
        layers = layers_of(annotations[KUEUE_SLICE_CONSTRAINTS], "") if KUEUE_SLICE_CONSTRAINTS in annotations else ()
    except (UserError, TypeError):
        return {}
    if not layers:
        return {}
    return {
        KAI_SEGMENT_SIZE: ",".join(str(layer.size) for layer in layers),
        KAI_SEGMENT_REQUIRED_PLACEMENT: ",".join(layer.label for layer in layers),
    }


def _faults_of_group(asked: Mapping[str, str], path: str) -> Iterator[UserError]:
    group = asked.get(KUEUE_POD_SET_GROUP)
    if group is None:
        return
    if not group or whole_number(group) is not None:
        yield _fault(
            path, KUEUE_POD_SET_GROUP, f'"{shortened(group)}" is not a name: Kueue allows no number here. Add a letter.'
        )
    if sliced := [key for key in _SLICES if key in asked]:
        text = f"A pod set group has no slices. Remove this annotation, or {' and '.join(sliced)}."
        yield _fault(path, KUEUE_POD_SET_GROUP, text)
    if KUEUE_REQUIRED not in asked and KUEUE_PREFERRED not in asked:
        yield _fault(
            path, KUEUE_POD_SET_GROUP, f"A pod set group needs {KUEUE_REQUIRED} or {KUEUE_PREFERRED} beside it."
        )


def _topology(levels: Sequence[tuple[str, str]], named: str, path: str, topologies: Mapping[str, Topology]) -> str:
    """Step 2: the name of the Topology with these levels. Raises UserError."""
    if named and named not in topologies:
        return named  # it is checked where ours are, which also waits for a Topology that was created just before
    among = {named: topologies[named]} if named else topologies
    for key, label in levels:
        if not any(label in topology.node_labels for topology in among.values()):
            raise _fault(path, key, _no_level(label, {name: each for name, each in among.items() if each.source}))
    labels = [label for _, label in levels]
    having = with_levels(labels, among)
    if not having:
        text = f"No Topology has all of these levels: {', '.join(map(shortened, labels))}. Name levels of one."
        raise UserError(path, text)
    if len({each.node_labels for each in having}) > 1:
        names = ", ".join(each.name for each in having[:_MOST_NAMED])
        raise _fault(
            path,
            levels[0][0],
            f'{len(having)} Topologies have the level "{shortened(labels[0])}": {names}. '
            f"Name one of them in the annotation {KAI_TOPOLOGY} beside this one.",
        )
    return having[0].name


def _no_level(label: str, among: Mapping[str, Topology]) -> str:
    known = list(dict.fromkeys(level for topology in among.values() for level in topology.node_labels))
    where = f"Topology {next(iter(among))}" if len(among) == 1 else "any Topology of this cluster"
    said = ", ".join(known[:_MOST_NAMED]) or "none"
    return f'"{shortened(label)}" is no level of {where}. Its node labels: {said}.{did_you_mean(label, known)}'


def _fault(path: str, key: str, text: str) -> UserError:
    return UserError(f"{path}[{key}]", text)


def _listed(path: str, keys: Sequence[str] | Mapping[str, Any]) -> str:
    return f"{path}[{', '.join(keys)}]"
