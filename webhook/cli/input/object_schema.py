"""The schema that the API server would enforce, for the fields that we read from objects in files.

Objects from the API server have passed its decoding; objects from files have not. A shape is written like an
example:

    {"name": TEXT}     an object; absent and null fields pass, fields that are not named are not checked
    {"name!": TEXT}    the field is required and must not be empty
    LIST               a list of anything
    [shape]            a list
    Entries(shape)     a list of named objects, or its older form: an object from name to object or quantity
    TEXT, NUMBER, FLAG, QUANTITY, TEXTS (an object of texts), QUANTITIES (an object of quantities)
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.model.errors import UserError
from webhook.model.resources import parse_list

# A shape is data: a dict, a list of one shape, Entries, or one of the functions that check a plain value.
Schema = Any
Faults = Iterator[UserError]


@dataclass(frozen=True, slots=True)
class Entries:
    """A list of named objects, or an object that maps names to them."""

    entry: Schema


def faults(value: object, schema: Schema, path: str = "") -> Faults:
    """The differences between the value and the shape, each with its path."""
    if value is None:
        return
    if isinstance(schema, Entries) and not isinstance(value, Mapping):
        schema = [schema.entry]
    if isinstance(schema, Entries):
        named = value if isinstance(value, Mapping) else {}
        for name, entry in named.items():
            yield from faults(entry, schema.entry if isinstance(entry, Mapping) else QUANTITY, f"{path}[{name}]")
    elif isinstance(schema, dict):
        if not isinstance(value, Mapping):
            yield _is_not("an object", value, path)
            return
        for key, below in schema.items():
            name = key.removesuffix("!")
            where = f"{path}.{name}" if path else name
            held = value.get(name)
            if name != key and (held is None or held == "" or (held == [] and isinstance(below, list))):
                yield UserError(where, "This is missing.")
            yield from faults(held, below, where)
    elif isinstance(schema, list):
        if not isinstance(value, list):
            yield _is_not("a list", value, path)
            return
        for position, item in enumerate(value):
            where = f"{path}[{position}]"
            # Fields may be null, but items of these lists may not.
            yield from [_is_not("an object", item, where)] if item is None else faults(item, schema[0], where)
    else:
        yield from schema(value, path)


def _plain(kind: type, words: str) -> Callable[[object, str], Faults]:
    def check(value: object, path: str) -> Faults:
        # In Python True is an int, in JSON it is not.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            yield _is_not(words, value, path)

    return check


TEXT = _plain(str, "text")
NUMBER = _plain(int, "a whole number")
FLAG = _plain(bool, "true or false")
LIST = _plain(list, "a list")


def TEXTS(value: object, path: str) -> Faults:  # noqa: N802 - a shape, like its neighbours
    """An object whose values are texts."""
    if not isinstance(value, Mapping):
        yield _is_not("an object", value, path)
        return
    for name, text in value.items():
        if not isinstance(text, str):
            yield _is_not("text (in quotes)", text, f"{path}[{name}]")


def QUANTITIES(value: object, path: str) -> Faults:  # noqa: N802
    """An object whose values are amounts of resources."""
    try:
        parse_list(value, path)
    except UserError as error:
        yield from error.faults


def QUANTITY(value: object, path: str) -> Faults:  # noqa: N802
    """An amount of a resource."""
    yield from (UserError(path, fault.message) for fault in QUANTITIES({"": value}, path))


def _is_not(words: str, value: object, path: str) -> UserError:
    shown = repr(value)
    return UserError(path, f"This must be {words}, not {shown if len(shown) < 60 else shown[:57] + '...'}.")


_REQUIREMENT = {"key": TEXT, "operator": TEXT, "values": [TEXT]}
_TERM = {"matchExpressions": [_REQUIREMENT], "matchFields": [_REQUIREMENT]}
_RESOURCES = {"requests": QUANTITIES, "limits": QUANTITIES}
_CONTAINER = {
    "name!": TEXT,
    "resources": _RESOURCES,
    "restartPolicy": TEXT,
    "env": [{"name": TEXT}],
    "ports": [{"hostPort": NUMBER}],
}
METADATA: Schema = {
    "name": TEXT,
    "generateName": TEXT,
    "namespace": TEXT,
    "uid": TEXT,
    "labels": TEXTS,
    "annotations": TEXTS,
    "creationTimestamp": TEXT,
    "resourceVersion": TEXT,
    "managedFields": [{"operation": TEXT}],
    "ownerReferences": [{"apiVersion": TEXT, "kind": TEXT, "name": TEXT, "uid": TEXT, "controller": FLAG}],
}
# Fields of every object.
OBJECT: Schema = {"metadata!": {"name": TEXT, "generateName": TEXT}}
_NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms!": [_TERM]},
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": NUMBER, "preference": _TERM}],
}

_CONDITIONS = [{"type": TEXT, "status": TEXT, "reason": TEXT, "lastTransitionTime": TEXT}]
_STATE: Schema = {"running": {}, "terminated": {}}
_CONTAINER_STATUS = {
    "name!": TEXT,
    "allocatedResources": QUANTITIES,
    "resources": _RESOURCES,
    "state": _STATE,
    "lastState": _STATE,
}

# A pod, or a pod template.
POD: Schema = {
    "metadata": METADATA,
    "spec!": {
        "containers!": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "overhead": QUANTITIES,
        "resources": _RESOURCES,
        "nodeName": TEXT,
        "nodeSelector": TEXTS,
        "schedulerName": TEXT,
        "priority": NUMBER,
        "preemptionPolicy": TEXT,
        "affinity": {"nodeAffinity": _NODE_AFFINITY, "podAffinity": {}, "podAntiAffinity": {}},
        "topologySpreadConstraints": [{}],
        "volumes": [{}],
        "resourceClaims": [{}],
        "tolerations": [{"key": TEXT, "operator": TEXT, "value": TEXT, "effect": TEXT}],
        "schedulingGates": [{"name!": TEXT}],
    },
    "status": {
        "phase": TEXT,
        "startTime": TEXT,
        "conditions": _CONDITIONS,
        "initContainerStatuses": [_CONTAINER_STATUS],
        "containerStatuses": [_CONTAINER_STATUS],
    },
}
DISRUPTION_BUDGET: Schema = {
    "metadata": METADATA,
    "spec": {"selector": {"matchLabels": TEXTS, "matchExpressions": [_REQUIREMENT]}},
    "status": {"disruptionsAllowed": NUMBER, "disruptedPods": {}},
}
NODE: Schema = {
    "metadata": METADATA,
    "spec": {"unschedulable": FLAG, "taints": [{"key!": TEXT, "value": TEXT, "effect!": TEXT}]},
    "status": {"allocatable": QUANTITIES, "conditions": _CONDITIONS},
}
_ZONES = Entries(
    {
        "name": TEXT,
        "type": TEXT,
        "costs": Entries({"name": TEXT, "value": NUMBER}),
        "resources": Entries({"name": TEXT, "capacity": QUANTITY, "allocatable": QUANTITY, "available": QUANTITY}),
    }
)
NODE_RESOURCE_TOPOLOGY: Schema = {
    "metadata": METADATA,
    "topologyPolicies": [TEXT],
    "attributes": [{"name": TEXT, "value": TEXT}],
    "zones": _ZONES,
    "cells": _ZONES,
}
TOPOLOGY: Schema = {"metadata": METADATA, "spec": {"levels": [{"nodeLabel!": TEXT, "alias": TEXT}]}}
GROVE_TOPOLOGY: Schema = {"metadata": METADATA, "spec": {"levels": [{"key!": TEXT, "domain": TEXT}]}}
NAMESPACE: Schema = {"metadata": METADATA}
POD_GROUP: Schema = {"metadata": METADATA}
DEVICE_OBJECT: Schema = {"metadata": METADATA, "spec": {}, "status": {}}
