"""Kueue's slices inside slices, as its annotation lists them from coarse to fine.

    kueue.x-k8s.io/podset-slice-required-topology-constraints: |
      [{"topology": "cloud.example.com/block", "size": 16}, {"topology": "kubernetes.io/hostname", "size": 4}]

Source: kueue pkg/controller/jobframework/tas_validation.go, validateSliceRequiredTopologyConstraintsAnnotation. Kueue's
own example writes sizes in quotes; they are read, too.
"""

import json
from itertools import pairwise
from typing import Any, Final, NamedTuple

from webhook.model.counted import counted
from webhook.model.errors import UserError
from webhook.model.fields import whole_number
from webhook.model.json_text import shortened
from webhook.model.workload.topology_request import MAX_LAYERS

_EXAMPLE: Final = (
    '[{"topology": "cloud.example.com/block", "size": 16}, {"topology": "kubernetes.io/hostname", "size": 4}]'
)
_MAX_SIZE: Final = 150_000
"""More pods than any cluster runs (webhook.model.workload.common_fields)."""


class Layer(NamedTuple):
    """Slices of one size."""

    label: str
    """The node label of the level that one domain of holds a slice."""
    size: int


def layers_of(text: str, path: str) -> tuple[Layer, ...]:
    """The layers that the annotation lists, from coarse to fine. path: the annotation's. Raises UserError."""
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
