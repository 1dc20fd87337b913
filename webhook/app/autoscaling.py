"""How a cluster autoscaler is asked for nodes, by the settings."""

from collections.abc import Callable

from webhook.app.rules_of_settings import asking_of, rules_of
from webhook.app.settings import Settings
from webhook.cache.cluster_cache import ClusterCache
from webhook.controllers.autoscaling.answers import ScaleUpAnswers
from webhook.controllers.autoscaling.exporter_reports import MissingExporterReports
from webhook.controllers.autoscaling.lacking_room import LackingRoom
from webhook.controllers.autoscaling.marks import ScaleUpMarks
from webhook.controllers.autoscaling.narrowing import Narrowing
from webhook.controllers.autoscaling.provisioning import Provisioning
from webhook.controllers.autoscaling.provisioning_writer import ProvisioningWriter
from webhook.kube.client import Client
from webhook.kube.events import EventRecorder
from webhook.kube.pod_writes import PodWrites
from webhook.kube.provisioning_request_client import ProvisioningWrites


def scale_up_marks(
    settings: Settings,
    client: Client,
    cache: ClusterCache,
    lacking_room: LackingRoom,
    events: EventRecorder,
    is_leader: Callable[[], bool],
) -> ScaleUpMarks:
    """Shows the autoscaler the pods that wait for room, and asks it for gangs as a whole where a class is set."""
    rules, asking = rules_of(settings), asking_of(settings)
    narrowing = Narrowing(
        cache, PodWrites(client), events, rules, asking.narrow_after, asking.new_node_seconds, is_leader
    )
    exporters = MissingExporterReports(events, asking.new_node_seconds)
    answers = ScaleUpAnswers(cache, rules, asking, cache.current_time)
    marks = ScaleUpMarks(cache, PodWrites(client), lacking_room, answers, narrowing, exporters, is_leader)
    if asking.provisioning_class:
        writer = ProvisioningWriter(cache, ProvisioningWrites(client), is_leader)
        marks.ask_for_gangs_by(Provisioning(cache, writer, asking.provisioning_class))
    return marks
