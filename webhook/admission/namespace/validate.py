"""The validating webhook on namespaces: it warns of a label or annotation that its pods cannot use, and denies nothing.

Controllers create most pods, and no user reads the warnings that those get. The user who writes the namespace does.
"""

from webhook.admission.response import Allowed
from webhook.model.admission_review import AdmissionRequest
from webhook.model.names import MANAGE_LABEL, NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from webhook.model.namespace import Namespace

_READ = ((MANAGE_LABEL, "labels"), (NUMA_TOPOLOGY_SPEC, "annotations"), (RESOURCE_SPEC, "annotations"))


class NamespaceValidator:
    """The handler."""

    def handle(self, request: AdmissionRequest) -> Allowed:
        """Warn where the label or an annotation is set or changed; a value that was there before was warned of then."""
        if not request.may_change_metadata_of("Namespace") or _read(request.object) == _read(request.old_object):
            return Allowed()
        return Allowed(Namespace.from_object(request.object).problems)


def _read(raw: object) -> list[object]:
    metadata = (raw.get("metadata") or {}) if isinstance(raw, dict) else {}
    return [(metadata.get(field) or {}).get(name) for name, field in _READ]
