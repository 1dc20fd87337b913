"""The validating webhook on namespaces: warns about a label or annotation that its pods cannot use; denies nothing.

Controllers create most pods, and no user reads the warnings about those. The user who writes the namespace does.
"""

from webhook.admission.response import Allowed
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.formats.kubernetes.namespace import Namespace
from webhook.model.names import MANAGE_LABEL, NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC

_READ = ((MANAGE_LABEL, "labels"), (NUMA_TOPOLOGY_SPEC, "annotations"), (RESOURCE_SPEC, "annotations"))


class NamespaceValidator:
    """The handler."""

    def handle(self, request: AdmissionRequest) -> Allowed:
        """Warn if the label or an annotation is set or changed; an existing value has been warned about before."""
        if not request.may_change_metadata_of("Namespace") or _read(request.object) == _read(request.old_object):
            return Allowed()
        return Allowed(Namespace.from_object(request.object).problems)


def _read(raw: object) -> list[object]:
    metadata = (raw.get("metadata") or {}) if isinstance(raw, dict) else {}
    return [(metadata.get(field) or {}).get(name) for name, field in _READ]
