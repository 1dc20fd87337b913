"""A gang member's rank and domains as environment variables of its containers, if an annotation requests them.

Each variable reads a label of the pod through the downward API when its container starts. The labels are written when
the pod is assigned. Without such a label the variable is empty. A variable that a container defines itself is not
changed, so a second pass adds nothing.

Source: kubernetes pkg/fieldpath (a key that the pod does not have gives the empty string).
"""

from collections.abc import Mapping
from typing import Any, Final

from webhook.admission.patch import END, Patch
from webhook.model.domain_label import variables_of_levels
from webhook.model.names import INJECT_ENV, KAI_TOPOLOGY
from webhook.model.topology import Topology

_CONTAINERS: Final = ("initContainers", "containers")


def inject_environment(patch: Patch, topologies: Mapping[str, Topology]) -> None:
    """Add the variables to all containers of the pod of the patch, if it requests them."""
    annotations = patch.document["metadata"].get("annotations") or {}
    if annotations.get(INJECT_ENV) != "true":
        return
    variables = _variables(annotations, topologies)
    for kind in _CONTAINERS:
        for index, container in enumerate(patch.document["spec"].get(kind) or ()):
            _inject(patch, ("spec", kind, index, "env"), container, variables)


def _variables(annotations: Mapping[str, str], topologies: Mapping[str, Topology]) -> dict[str, str]:
    """The variables of the pod's topology, or of all topologies if the pod may take its topology from its owners."""
    named = topologies.get(annotations.get(KAI_TOPOLOGY, ""))
    variables: dict[str, str] = {}
    for topology in [named] if named else topologies.values():
        variables |= variables_of_levels(topology.node_labels)
    return variables or variables_of_levels(())


def _inject(
    patch: Patch, path: tuple[str | int, ...], container: Mapping[str, Any], variables: Mapping[str, str]
) -> None:
    defined = {variable.get("name") for variable in container.get("env") or ()}
    for name in sorted(variables.keys() - defined):
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{variables[name]}']"}}
        patch.put((*path, END), {"name": name, "valueFrom": source})
