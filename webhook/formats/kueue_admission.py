"""Kueue's objects that our admission check reads: AdmissionChecks, ResourceFlavors, Workloads that wait for a check.

    ClusterQueue --admissionChecks--> AdmissionCheck (controllerName topology-webhook.dev/fit)
    Workload: QuotaReserved, status.admissionChecks: [{name, state: Pending}]  -> is there room for its pods?

A Workload is kept only while it has its quota and a check of it is pending. What its pods look like is in its pod sets;
a flavor adds node labels and tolerations to them when Kueue lets them start.

Source: kueue v0.15.2 apis/kueue/v1beta1 (the fields read here are the same in v1beta2); pkg/podset for what a flavor
adds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from webhook.formats.kubernetes.pod import Owner
from webhook.formats.workload.common_fields import MAX_POD_SETS, at_most_a_cluster, count, gang_of_pod_sets
from webhook.formats.workload.record import PodNames, Workload, WorkloadPodSet
from webhook.model.errors import UserError
from webhook.model.fields import mapping, mappings
from webhook.records import record

CONTROLLER: Final = "topology-webhook.dev/fit"
"""The controllerName of AdmissionChecks that the leader answers."""
_MOST_POD_SETS: Final = 8
"""The CRD's own limit; one without a schema may have more."""
MOST_CHECKS: Final = 64
"""Checks of one Workload that are read. A ClusterQueue has a few."""


@record
class AdmissionCheck:
    """An AdmissionCheck that names us as its controller."""

    name: str
    generation: int
    is_active: bool
    """Whether its condition Active says so for this generation."""

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "AdmissionCheck | None":
        """Read one; None if another controller answers it. Raises UserError."""
        if mapping(raw, "spec", "spec").get("controllerName") != CONTROLLER:
            return None
        generation = raw["metadata"].get("generation") or 0
        active = _condition(raw, "Active")
        is_active = active.get("status") == "True" and active.get("observedGeneration") == generation
        return cls(raw["metadata"]["name"], generation, is_active)


@record
class ResourceFlavor:
    """What a flavor adds to the pods that get it."""

    name: str
    labels: Mapping[str, str]
    tolerations: Sequence[Mapping[str, Any]]

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "ResourceFlavor":
        """Read one. Raises UserError."""
        spec = mapping(raw, "spec", "spec")
        labels = mapping(spec, "nodeLabels", "spec.nodeLabels")
        return cls(raw["metadata"]["name"], labels, mappings(spec, "tolerations", "spec.tolerations"))


@record
class PendingWorkload:
    """A Workload that has its quota and waits for checks."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    created: str
    priority: int
    owner: Owner | None
    """The workload that it stands for."""
    pod_sets: Sequence[Mapping[str, Any]]
    assignments: Mapping[str, Mapping[str, Any]]
    """By name of the pod set: how many of its pods have quota, and of which flavors."""
    pending: Mapping[str, int]
    """The checks that are pending: name -> position in `status.admissionChecks`."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "PendingWorkload | None":
        """Read one; None if it has no quota, or no check of it is pending. Raises UserError."""
        if not _is_true(raw, "QuotaReserved") or any(
            _is_true(raw, ended) for ended in ("Admitted", "Evicted", "Finished")
        ):
            return None
        status, spec, metadata = mapping(raw, "status", "status"), mapping(raw, "spec", "spec"), raw["metadata"]
        checks = mappings(status, "admissionChecks", "status.admissionChecks")[:MOST_CHECKS]
        pending = {str(one.get("name")): at for at, one in enumerate(checks) if one.get("state") == "Pending"}
        if not pending:
            return None
        admission = mapping(status, "admission", "status.admission")
        assigned = mappings(admission, "podSetAssignments", "status.admission.podSetAssignments")
        owners = metadata.get("ownerReferences") or ()
        priority = spec.get("priority")
        return cls(
            metadata["namespace"],
            metadata["name"],
            metadata.get("uid") or "",
            metadata.get("resourceVersion") or "",
            metadata.get("creationTimestamp") or "",
            priority if isinstance(priority, int) else 0,
            next((Owner.from_reference(owner) for owner in owners if owner.get("controller") is True), None),
            mappings(spec, "podSets", "spec.podSets"),
            {str(one.get("name")): one for one in assigned[:MAX_POD_SETS]},
            pending,
        )

    def as_workload(self, annotations: Mapping[str, str], flavors: Mapping[str, ResourceFlavor]) -> Workload:
        """Its pods as one gang: all that have quota start together. Raises UserError.

        annotations: those of the workload that it stands for.
        """
        if len(self.pod_sets) > _MOST_POD_SETS:
            raise UserError(
                "spec.podSets", f"There are {len(self.pod_sets)} pod sets, and Kueue takes {_MOST_POD_SETS}."
            )
        pod_sets = [self._pod_set(raw, f"spec.podSets[{at}]", flavors) for at, raw in enumerate(self.pod_sets)]
        at_most_a_cluster(sum(len(one.pods) for one in pod_sets), "spec.podSets")
        gang = gang_of_pod_sets(self.name, annotations, [one for one in pod_sets if one.pods])
        return Workload("Workload", self.namespace, self.name, self.uid, (gang,), annotations)

    def _pod_set(self, raw: Mapping[str, Any], path: str, flavors: Mapping[str, ResourceFlavor]) -> WorkloadPodSet:
        name = str(raw.get("name") or "main")
        assigned = self.assignments.get(name, {})
        pods = count(assigned, "count", "status.admission", count(raw, "count", path, 1))
        template = mapping(raw, "template", f"{path}.template")
        named = mapping(assigned, "flavors", "status.admission.flavors").values()
        spec = _with_flavors(
            mapping(template, "spec", f"{path}.template.spec"), [flavors[one] for one in named if one in flavors]
        )
        return WorkloadPodSet(
            name, PodNames(f"{self.name}-{name}", range(pods)), pods, {**template, "spec": spec}, f"{path}.template"
        )


def _with_flavors(spec: Mapping[str, Any], flavors: Iterable[ResourceFlavor]) -> Mapping[str, Any]:
    """A pod's spec with the node selector and tolerations of its flavors."""
    selector = dict(mapping(spec, "nodeSelector", "nodeSelector"))
    tolerations = list(mappings(spec, "tolerations", "tolerations"))
    for flavor in flavors:
        selector |= flavor.labels
        tolerations += [one for one in flavor.tolerations if one not in tolerations]
    return {**spec, "nodeSelector": selector, "tolerations": tolerations}


def _condition(raw: Mapping[str, Any], wanted: str) -> Mapping[str, Any]:
    conditions = mappings(mapping(raw, "status", "status"), "conditions", "status.conditions")
    return next((one for one in conditions if one.get("type") == wanted), {})


def _is_true(raw: Mapping[str, Any], wanted: str) -> bool:
    return _condition(raw, wanted).get("status") == "True"
