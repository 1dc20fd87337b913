"""Kueue's objects that concern our admission check, current as of the last event."""

from webhook.formats.kueue_admission import AdmissionCheck, PendingWorkload, ResourceFlavor
from webhook.state.store import Store


class KueueAdmission:
    """The checks that name us, what flavors add to pods, and the Workloads that wait for any check."""

    def __init__(self) -> None:
        self.checks: Store[AdmissionCheck] = Store(
            "AdmissionCheck", AdmissionCheck.from_object, lambda check: check.name
        )
        self.flavors: Store[ResourceFlavor] = Store(
            "ResourceFlavor", ResourceFlavor.from_object, lambda flavor: flavor.name
        )
        self.workloads: Store[PendingWorkload] = Store(
            "Workload", PendingWorkload.from_object, lambda workload: workload.key
        )
