"""The objects by which cluster-autoscaler is asked for a gang: a PodTemplate for each pod set, and the request.

1. A template requires new nodes of the node groups that can take its pods, and excludes present nodes that they fit in
   sum alone. The pods themselves are not changed, so both can be taken back with the request.
2. The name of a request has a digest of its content. Equal content has equal names, so a leader that takes over
   continues where the last one stopped.
3. The owners are members of the gang. When these are gone, Kubernetes' garbage collector removes the objects, even if
   the service is gone, too.
4. Each object has a seal (see `hint_key`), by which the leader knows what it made.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.formats.autoscaling.provisioning_request import (
    GANG,
    GANG_DIGEST,
    GROUP,
    KIND,
    MANAGED_BY,
    POD_SETS_DIGEST,
    sealed_parts,
    sealed_template_parts,
)
from webhook.formats.koordinator.hint_key import SEAL, HintKey
from webhook.formats.patches.affinity_patch import EXPRESSIONS, Constraint, Term, constrain, none_of, within_bounds
from webhook.formats.patches.affinity_patch import required_terms as required_terms_of
from webhook.formats.patches.json_patch import Patch
from webhook.model.raw import Draft
from webhook.placing.autoscaling.lacking_room import NewNodes
from webhook.placing.autoscaling.provisioning_pod_sets import PodSets, digest_of
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.gated_pods import GatedPod

# 150 bytes each. The objects are made again for the members that remain if all of these end first.
_MOST_OWNERS: Final = 16
_PREFIX: Final = "topology-webhook-"


@dataclass(frozen=True, slots=True)
class ProvisioningObjects:
    """What is created for a gang."""

    namespace: str
    name: str
    """The name of the request."""
    digest: str
    """That of its pod sets."""
    templates: tuple[Draft, ...]
    request: Draft


def gang_digest(gang: GatedGang) -> str:
    """The gang's key as the value of a label: users write parts of the key, of any length."""
    return digest_of(gang.membership.group)


def objects_of(
    gang: GatedGang, pod_sets: PodSets, nodes: Mapping[Hashable, NewNodes], class_name: str, version: str, key: HintKey
) -> ProvisioningObjects:
    """The objects for a gang. nodes: by request signature. version: of the kind, as the API server serves it."""
    namespace, digest = gang.namespace, gang_digest(gang)
    templates = [constrained(each.template, nodes.get(each.signature, NewNodes())) for each in pod_sets.each]
    counts = [each.count for each in pod_sets.each]
    name = _PREFIX + digest_of([namespace, digest, class_name, templates, counts])
    names = [f"{name}-{number}" for number in range(len(templates))]
    metadata: Draft = {
        "namespace": namespace,
        "labels": {**MANAGED_BY, GANG_DIGEST: digest},
        "annotations": {GANG: gang.membership.name},
        "ownerReferences": _owners(gang.members),
    }
    sets = [{"podTemplateRef": {"name": each}, "count": count} for each, count in zip(names, counts, strict=True)]
    spec = {"provisioningClassName": class_name, "podSets": sets}
    seal = key.seal(*sealed_parts(namespace, name, digest, pod_sets.digest, spec))
    request = {
        "apiVersion": f"{GROUP}/{version}",
        "kind": KIND,
        "metadata": _named(metadata, name, {POD_SETS_DIGEST: pod_sets.digest, SEAL: seal}),
        "spec": spec,
    }
    made = tuple(
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": _named(metadata, each, {SEAL: key.seal(*sealed_template_parts(namespace, each))}),
            "template": template,
        }
        for each, template in zip(names, templates, strict=True)
    )
    return ProvisioningObjects(namespace, name, pod_sets.digest, made, request)


def constrained(template: Draft, nodes: NewNodes) -> Draft:
    """The template with a node affinity that allows these new nodes alone, ANDed with its own."""
    labels: dict[str, list[str]] = {}
    for label, value in nodes.groups:
        labels.setdefault(label, []).append(value)
    alternatives: tuple[Term, ...] = tuple(
        {EXPRESSIONS: [{"key": label, "operator": "In", "values": sorted(values)}]}
        for label, values in sorted(labels.items())
    )
    for term in none_of(nodes.not_these):
        # Every node may be named in a field of its own, so each kind of requirement is added to each alternative.
        alternatives = tuple(
            {kind: [*one.get(kind, ()), *term.get(kind, ())] for kind in (*one, *term)} for one in alternatives or ({},)
        )
    if not alternatives:
        return template
    patch = Patch(template)
    constrain(patch, within_bounds(Constraint(alternatives), required_terms_of(template)))
    constrained_template: Draft = patch.document
    return constrained_template


def _owners(members: Sequence[GatedPod]) -> list[Draft]:
    return [
        {"apiVersion": "v1", "kind": "Pod", "name": member.pod.name, "uid": member.pod.uid}
        for member in members[:_MOST_OWNERS]
    ]


def _named(metadata: Draft, name: str, annotations: Draft) -> Draft:
    return {**metadata, "name": name, "annotations": {**metadata["annotations"], **annotations}}
