"""Which pods are managed: assigned, checked at binding, and counted."""

from enum import StrEnum
from typing import Final


class Manage(StrEnum):
    """The setting `manage`. The namespace label has the same values in lower case."""

    ANNOTATED = "Annotated"
    """Pods with a request in their own annotations or their owners'."""
    ALIGNED = "Aligned"
    """Also pods that a kubelet aligns: exclusive CPUs, memory, huge pages, devices of NUMA nodes."""
    ALL = "All"

    @property
    def label(self) -> str:
        """The value of the label `topology-webhook.dev/manage`."""
        return self.value.lower()


BY_LABEL: Final = {manage.label: manage for manage in Manage}
