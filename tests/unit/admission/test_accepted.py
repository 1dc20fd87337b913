"""A real API server accepts what is added to a pod, whatever the user wrote before; a second pass changes nothing."""

from itertools import product
from typing import Any

from tests.cluster.control_plane import ControlPlane
from webhook.formats.patches.affinity_patch import (
    PREFERRED,
    REQUIRED,
    Constraint,
    NodeRef,
    constrain,
    none_of,
    one_of,
    preference,
    required_terms,
)
from webhook.formats.patches.json_patch import Patch
from webhook.formats.patches.managed_fields import ManagedFields, without_ours

LABELLED = [NodeRef(f"n{i}", f"host-{i}") for i in range(64)]
BARE = [NodeRef(f"bare-{i}", None) for i in range(3)]

ALTERNATIVES = [
    (),
    one_of(LABELLED[:1]),
    one_of(LABELLED),
    one_of(BARE),
    one_of([*LABELLED[:2], *BARE]),
    none_of(LABELLED),
    none_of(BARE),
    none_of([*LABELLED, *BARE]),
]
GPU = {"key": "gpu", "operator": "Exists"}
NAMED = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
USERS_TERMS: list[list[dict[str, Any]] | None] = [
    None,
    [{"matchExpressions": [GPU]}],
    [{"matchFields": [NAMED]}, {}],
    [{"matchExpressions": [GPU], "matchFields": [NAMED]}, {"matchExpressions": []}, {"matchExpressions": [GPU]}],
]


def test_the_api_server_accepts_every_shape_that_is_written(control_plane: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    preferred = tuple(preference(node, 50) for node in (LABELLED[0], BARE[0]))
    for number, (alternatives, terms) in enumerate(product(ALTERNATIVES, USERS_TERMS)):
        affinity = {} if terms is None else {REQUIRED: {"nodeSelectorTerms": terms}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number}"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "affinity": {"nodeAffinity": affinity}},
        }
        constraint = Constraint(alternatives, preferred)
        patch = Patch(pod)
        constrain(patch, constraint)
        created = control_plane.api.create(path, patch.document)
        written = created["spec"]["affinity"]["nodeAffinity"]
        # Decoded and encoded by the API server: empty lists are gone, nothing else is.
        expected = len(
            patch.document["spec"]["affinity"]["nodeAffinity"].get(REQUIRED, {}).get("nodeSelectorTerms", ())
        )
        assert len(written.get(REQUIRED, {}).get("nodeSelectorTerms", ())) == expected
        assert written[PREFERRED] == list(preferred)
        # And a second pass over what it made of the pod changes nothing.
        managed_fields = ManagedFields.of(constraint, len(required_terms(pod) or ()))
        again = Patch(without_ours(created, managed_fields))
        constrain(again, constraint)
        assert again.document["spec"]["affinity"] == created["spec"]["affinity"]
