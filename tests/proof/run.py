"""One run of a scenario.

1. A fresh control plane, so that nothing remains of the last run: CRDs, racks, the machines' kubelets.
2. With the webhook: the chart is installed and its Deployment runs here as a local process.
3. Workloads are created at their times, and every pod is observed until the time is over.
4. The histories become a row. Rejections despite the webhook are reported in full, and so are waiting and denied pods.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tests.cluster.claim_journal import ClaimJournal
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubelets import kubelets, static_pod
from tests.cluster.nodes import RACK_LABEL
from tests.cluster.real_kubelets import real_kubelets
from tests.cluster.webhook_process import local_webhook
from tests.neighbours.beside import running_beside
from tests.neighbours.exporters import EXPORTERS
from tests.proof.allocations import choices
from tests.proof.autoscale import autoscaled_machines, tell_nodes
from tests.proof.beside import tell_touched
from tests.proof.dra import alignments, create_claim_templates
from tests.proof.measure import measure
from tests.proof.observe import PodObserver
from tests.proof.preempt import create_priorities, tell_preempted
from tests.proof.workload import TOPOLOGY, Burst
from webhook.model.names import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.cluster.kubelets import Kubelets
    from tests.cluster.real_kubelets import RealKubelets
    from tests.neighbours.new_nodes import BootedNodes
    from tests.proof.allocations import ChosenNUMANodes
    from tests.proof.dra import Alignment
    from tests.proof.measure import ProofRow
    from tests.proof.observe import History
    from tests.proof.scenario import PlantedPod, ProofScenario

NAMESPACE = "proof"
CORRECTED_SECONDS = 2.0
"""In which the end of one pod comes to be known, and the allocation of another that found its room is corrected."""
TOLD = 10
"""Lines of a kind; a run can have hundreds."""
_REFUSED = re.compile(
    r'^apiserver_admission_webhook_rejection_count\{.*name="[^"]*binding[^"]*".*rejection_code="403".*\} (\S+)$',
    re.MULTILINE,
)


def run(
    scenario: ProofScenario,
    programs: Mapping[str, Path],
    tell: Callable[[str], None],
    *,
    webhook: bool,
    seed: int,
    values: Path | None = None,
    publisher: str = "rte",
    exporter: str = "",
) -> ProofRow:
    """Run a scenario once.

    values: more values of the chart, instead of the scenario's own settings. publisher: the form of the topologies that
    the simulated kubelets write.
    exporter: a component of EXPORTERS that writes them instead, from what it reads on each machine. Of real kubelets:
    instead of the scenario's own.
    """
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(ControlPlane.start(programs))
        plane.install_crds()
        plane.api.create("/apis/kai.scheduler/v1alpha1/topologies", _racks())
        seconds = None if scenario.exporter is None else scenario.exporter.seconds
        exporter = exporter or (scenario.exporter.name if scenario.exporter else "")
        state = Path(stack.enter_context(TemporaryDirectory())) if exporter and not scenario.exporter else None
        form = "none" if exporter else publisher
        manifests = Path(stack.enter_context(TemporaryDirectory())) if scenario.planted else None
        fleet: Kubelets | BootedNodes | RealKubelets
        if scenario.exporter is not None:
            fleet = stack.enter_context(real_kubelets(plane, scenario.machines))
            state = fleet.state
        elif scenario.group is None:
            fleet = stack.enter_context(
                kubelets(
                    plane,
                    scenario.machines,
                    lag=scenario.lag,
                    seed=seed,
                    publisher=form,
                    state=state,
                    manifests=manifests,
                )
            )
        else:
            fleet = stack.enter_context(
                autoscaled_machines(plane, scenario.group, tell, lag=scenario.lag, seed=seed, publisher=form)
            )
        if state is not None:
            stack.enter_context(EXPORTERS[exporter](plane, scenario.machines, state, tell, seconds))
        if webhook:
            own = {"settings": dict(scenario.settings)}
            stack.enter_context(local_webhook(plane, values=values or own)).wait_until_called()
        plane.create_namespace(NAMESPACE)
        create_priorities(plane, scenario)
        create_claim_templates(plane, scenario, NAMESPACE)
        if scenario.beside:
            stack.enter_context(running_beside(plane, scenario.beside, NAMESPACE, tell))
        observer = stack.enter_context(PodObserver.observing(plane.api, NAMESPACE))
        claims = stack.enter_context(ClaimJournal.following(plane.api)) if scenario.has_claims else ClaimJournal()
        _submit(plane, observer, scenario, manifests)
        time.sleep(max(0.0, scenario.seconds - observer.now))
        histories, admissions = observer.histories(), fleet.events("admitted")
        refused = refused_binds(plane.api.get("/metrics"))
        time.sleep(CORRECTED_SECONDS)
        allocations = choices(admissions, observer.by_uid(), exporter or publisher)
        aligned = alignments(claims.devices(), admissions, scenario.machines)
        row = measure(scenario, histories, allocations, aligned, webhook=webhook, refused_binds=refused)
        if webhook:
            _explain(histories, observer, fleet.events("rejected"), tell)
            _tell_allocations(allocations, tell)
            _tell_apart(aligned, tell)
            _tell_waiting(histories, observer, tell)
            _tell_denied(plane, tell)
        tell_preempted(scenario, observer, tell)
        if scenario.group:
            tell_nodes(plane, scenario.group, tell)
        if scenario.beside:
            tell_touched(scenario, observer, tell)
        for event in fleet.events("error"):
            tell(f"kubelets: {event['what']}: {event['message']}")
    return row


def refused_binds(metrics: str) -> int:
    """How many Bindings a webhook refused, by the API server's count."""
    return sum(int(float(count)) for count in _REFUSED.findall(metrics))


def _racks() -> dict[str, Any]:
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": TOPOLOGY},
        "spec": {"levels": [{"nodeLabel": RACK_LABEL}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }


def _submit(plane: ControlPlane, observer: PodObserver, scenario: ProofScenario, manifests: Path | None) -> None:
    """Create each workload and plant each static pod at its time; those of the same time in parallel."""

    def create(one: Burst | PlantedPod) -> None:
        if isinstance(one, Burst):
            plane.api.create(one.path(NAMESPACE), one.body())
        elif manifests is not None:
            static_pod(manifests, one.machine, one.name, one.cpu)

    waiting: list[Burst | PlantedPod] = [*scenario.workloads, *scenario.planted]
    waiting.sort(key=lambda one: one.at)
    while waiting:
        due = [one for one in waiting if one.at <= observer.now]
        waiting = waiting[len(due) :]
        plane.api.in_parallel(partial(create, one) for one in due)
        if waiting:
            time.sleep(max(0.0, waiting[0].at - observer.now))


def _explain(
    histories: Sequence[History],
    observer: PodObserver,
    rejections: Sequence[Mapping[str, Any]],
    tell: Callable[[str], None],
) -> None:
    """For each pod that was rejected despite the webhook: its request, its placement, and the state of its node.

    rejections: of simulated kubelets, who alone tell that state.
    """
    zones = {rejection["pod"].partition("/")[2]: rejection["zones"] for rejection in rejections}
    for history in [each for each in histories if each.rejected][:TOLD]:
        pod = observer.last_seen(history.name)
        free = [
            {resource["name"]: resource["available"] for resource in zone["resources"]}
            for zone in zones.get(history.name, ())
        ]
        asked = [container["resources"].get("requests", {}) for container in pod["spec"]["containers"]]
        ours = {
            key: text for key, text in pod["metadata"].get("annotations", {}).items() if key.startswith("topology-")
        }
        tell(f"{history.name} on {history.node}: {history.rejected}: asked {asked}, free {free}, annotations {ours}")


def _tell_allocations(found: Sequence[ChosenNUMANodes], tell: Callable[[str], None]) -> None:
    """For each wrong allocation, its NUMA nodes and the kubelet's choice; and how many were corrected later."""
    wrong = [choice for choice in found if choice.wrong]
    for choice in wrong[:TOLD]:
        tell(
            f"{choice.pod} on {choice.node}: allocation {sorted(choice.allocation or ())}, given {sorted(choice.given)}"
        )
    without = sum(choice.allocation is None for choice in found)
    late = sum(choice.first_allocation is None for choice in found)
    misled = sum(choice.first_allocation is not None and choice.first_allocation != choice.given for choice in found)
    tell(
        f"{len(wrong)} of {len(found) - without} allocations wrong, {without} pods without one; "
        f"at their bindings {late} had none, and {misled} a wrong one"
    )


def _tell_apart(found: Sequence[Alignment], tell: Callable[[str], None]) -> None:
    """For each pod with a device far from its CPUs: the NUMA nodes of both."""
    for each in [each for each in found if each.apart][:TOLD]:
        tell(f"{each.pod} on {each.node}: CPUs {sorted(each.cpus)}, devices {sorted(each.devices)}")


def _tell_waiting(histories: Sequence[History], observer: PodObserver, tell: Callable[[str], None]) -> None:
    """For each workload with waiting pods: how many wait, and the last reason."""
    waiting = {pod.workload: pod for pod in histories if pod.running is None and pod.ended is None}
    counts = Counter(pod.workload for pod in histories if pod.running is None and pod.ended is None)
    for workload, pod in list(waiting.items())[:TOLD]:
        raw = observer.last_seen(pod.name)
        conditions = {condition["type"]: condition for condition in raw["status"].get("conditions", ())}
        told = conditions.get("PodScheduled", {}).get("message", "")
        placement = raw["metadata"].get("annotations", {}).get(PLACEMENT, "")
        tell(f"{counts[workload]} of {workload} wait: {placement} | {told}")


def _tell_denied(plane: ControlPlane, tell: Callable[[str], None]) -> None:
    """For each workload with denied pods: the reason."""
    events = plane.api.get(f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=reason=FailedCreate")["items"]
    denied = {event["message"]: event["involvedObject"]["name"] for event in events}
    for message, workload in list(denied.items())[:TOLD]:
        tell(f"{workload}: {message}")
