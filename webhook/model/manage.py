"""Which pods are managed: placed, guarded at their binding, and counted."""

from enum import StrEnum
from typing import Final


class Manage(StrEnum):
    """The setting `manage`; the same values in lower case are those of the namespaces' label."""

    ANNOTATED = "Annotated"
    """Pods whose annotations ask for something, or their owners'."""
    ALIGNED = "Aligned"
    """Also pods that a kubelet aligns: exclusive CPUs, memory, huge pages, devices of NUMA nodes."""
    ALL = "All"

    @property
    def label(self) -> str:
        """The value of the label `topology-webhook.dev/manage`."""
        return self.value.lower()


BY_LABEL: Final = {manage.label: manage for manage in Manage}
