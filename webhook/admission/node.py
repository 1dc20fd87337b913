"""The validating webhook on nodes.

Denies an unknown value of Koordinator's label for the NUMA policy of a node, and warns of options of its kubelet that
cannot be read.
"""

from typing import Final

from webhook.admission.response import Allowed, Denied
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.formats.kubernetes.kubelet_options import stated_options
from webhook.model.names import KOORDINATOR_NODE_POLICY_LABEL
from webhook.model.policy import NUMAPolicy
from webhook.model.wording import did_you_mean, quoted, told

# Koordinator's documentation allows None on a node.
_ALLOWED: Final = (*(policy.koordinator for policy in reversed(NUMAPolicy) if policy is not NUMAPolicy.NONE), "None")


class NodeValidator:
    """The handler."""

    def handle(self, request: AdmissionRequest) -> Allowed | Denied:
        """Check label and annotation when a node is created or they change.

        An existing value is accepted: it must not make a kubelet's update of its node fail.
        """
        if not request.may_change_metadata_of("Node"):
            return Allowed()
        before, after = (
            ((raw.get("metadata") or {}).get("labels") or {}).get(KOORDINATOR_NODE_POLICY_LABEL)
            for raw in (request.old_object, request.object)
        )
        if not after or after == before or after in _ALLOWED:
            problems: list[str] = []
            stated_options((request.object.get("metadata") or {}).get("annotations") or {}, problems)
            return Allowed(told(problems))
        return Denied(
            f"metadata.labels[{KOORDINATOR_NODE_POLICY_LABEL}]: {quoted(after)} is not a NUMA policy; the values are "
            f"{', '.join(_ALLOWED)}.{did_you_mean(after, _ALLOWED)}",
            "InvalidLabel",
        )
