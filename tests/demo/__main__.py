"""python -m tests.demo [--keep]: what the webhook does, step by step, in half a minute once all is built.

1. Offline: `topology-webhook review` reviews the example pod against a snapshot of a cluster.
2. A real control plane on loopback (built at the first run), and machines with real kubelets (machines.py).
3. Without the webhook: kubelets reject pods that fit the sum of a machine, and their ReplicaSet makes more of them.
4. The chart is installed. The webhook runs here with the chart's arguments and rights.
5. With the webhook: the same ReplicaSet, the same scheduler, and no rejection. `kubectl describe` shows why.
6. The kubelets' own checkpoints show the NUMA nodes that were predicted.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.cluster.assets import AssetError, find_assets
from tests.cluster.build import BuildFailedError
from tests.cluster.control_plane import CommandError, ControlPlane, NotReadyError
from tests.cluster.process import ProcessEndedError
from tests.cluster.real_kubelets import ImpossibleError
from tests.cluster.up import leave_on_signals, tell
from tests.cluster.webhook_process import PROGRAM, local_webhook
from tests.demo.example import CLUSTER, EXAMPLES, POD, example_cluster
from tests.demo.machines import MACHINES, DemoMachines, demo_machines, numa_node_of
from tests.neighbours.build import find_neighbour
from tests.neighbours.catalogue import NFD
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.model.names import NUMA_ALLOCATION

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = EXAMPLES.parent
REPLICA_SET = Path(__file__).with_name("replicaset.yaml")
NAME = "solver"
REPLICAS, CPUS = 8, 10
"""Of replicaset.yaml."""
ROOM = 2 * len(MACHINES)
"""One pod in each NUMA node."""
PODS, REPLICA_SETS = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/replicasets"
ENOUGH_REJECTED = 10
WATCHED_SECONDS = 3.0
"""With the webhook, after all that have room run: in this time the ReplicaSet alone made more than enough."""


def main() -> int:
    """Run the demo. 0: everything happened as announced; 1: it did not."""
    options = parser().parse_args()
    leave_on_signals()
    try:
        demo(keep=options.keep)
    except (
        AssetError,
        BuildFailedError,
        CommandError,
        ImpossibleError,
        NotReadyError,
        ProcessEndedError,
    ) as error:
        tell(f"error: {error}")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.demo", description="The main job, on a real control plane.")
    top.add_argument("--keep", action="store_true", help="leave the control plane running until Ctrl-C")
    return top


def demo(*, keep: bool) -> None:
    """The steps of the module's docstring."""
    step("1. Offline: which nodes can really take the pod of examples/pod.yaml?")
    review()
    step("2. A real control plane on loopback: kube-apiserver, etcd, an unmodified kube-scheduler; and three machines")
    programs = find_assets(tell)
    find_neighbour(NFD, tell)
    with ControlPlane.start(programs) as plane, contextlib.ExitStack() as stack:
        plane.install_crds()
        machines = stack.enter_context(demo_machines(plane, tell))
        introduce(plane, machines)
        without_webhook(plane)
        step("4. helm installs charts/topology-webhook; the webhook runs here, with the chart's arguments and rights")
        webhook = stack.enter_context(local_webhook(plane))
        webhook.wait_until_called()
        show(plane, "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations")
        with_webhook(plane)
        compare(plane, machines)
        step("Done")
        if keep:
            stack.enter_context(example_cluster(plane))
            stay(plane)
        else:
            say("KEEP=1 make demo leaves it running for you to try; make test proves more of this.")


def review() -> None:
    """Step 1."""
    command = [PROGRAM.name, "review", "-f", relative(POD), "--cluster", relative(CLUSTER)]
    say(f"$ {shlex.join(command)}")
    subprocess.run([PROGRAM, *command[1:]], cwd=ROOT, check=True)


def introduce(plane: ControlPlane, machines: DemoMachines) -> None:
    """Step 2."""
    show(plane, "get", "nodes")
    if machines.simulated:
        say(f"Their kubelets are simulated, with a kubelet's own admission code: {machines.simulated}")
    else:
        say("On each runs an unmodified kubelet, in a namespace that shows it a machine with 2 NUMA nodes of 16 cpus,")
        say("and node-feature-discovery, which publishes what is free of them. No process runs in the pods.")


def without_webhook(plane: ControlPlane) -> None:
    """Step 3."""
    step("3. Without the webhook")
    say(f"{REPLICAS} replicas of {CPUS} cpus: three fit the sum of a machine, but one fits each of its NUMA nodes.")
    create(plane)
    counts = watch(plane, "without the webhook", lambda now: now.running == ROOM and now.rejected >= ENOUGH_REJECTED)
    expect(counts.rejected >= ENOUGH_REJECTED, f"the kubelets were to reject pods, it is {counts}")
    plane.api.delete(f"{REPLICA_SETS}/{NAME}", {"propagationPolicy": "Background"})
    plane.wait_for("the end of its pods", lambda: not plane.api.get(PODS)["items"])


def with_webhook(plane: ControlPlane) -> None:
    """Step 5."""
    step("5. With the webhook: the same ReplicaSet, the same scheduler")
    create(plane)
    all_run = []  # since when

    def enough(now: Counts) -> bool:
        if now.running == ROOM:
            all_run.append(time.monotonic())
        return bool(all_run) and time.monotonic() > all_run[0] + WATCHED_SECONDS

    counts = watch(plane, "with the webhook", enough)
    expect(
        counts == Counts(rejected=0, running=ROOM, waiting=REPLICAS - ROOM),
        f"{ROOM} pods were to run, none to be rejected and the rest to wait, it is {counts}",
    )
    show(plane, "describe", "pod", next(raw["metadata"]["name"] for raw in running(plane)))
    say("The annotation topology-webhook.dev/placement says what was decided and why.")


def compare(plane: ControlPlane, machines: DemoMachines) -> None:
    """Step 6."""
    step("6. What was predicted, and what the kubelets did: /var/lib/kubelet/cpu_manager_state of each")
    for raw in running(plane):
        node, metadata = raw["spec"]["nodeName"], raw["metadata"]
        predicted = [numa for numa, _ in NUMAAllocation.parse(metadata["annotations"][NUMA_ALLOCATION]).numa_nodes]
        cpus = machines.exclusive_cpus(node, metadata["uid"])
        say(f"  {metadata['name']} on {node}: NUMA node {predicted[0]} predicted, cpus {cpus} given")
        expect(predicted == [numa_node_of(cpus)], f"{metadata['name']} was to get cpus of NUMA node {predicted}")


class Counts(NamedTuple):
    """The pods so far."""

    rejected: int
    running: int
    waiting: int


def create(plane: ControlPlane) -> None:
    """Create the ReplicaSet visibly."""
    say(f"$ kubectl create -f {relative(REPLICA_SET)}")
    plane.kubectl("create", "--filename", REPLICA_SET)


def watch(plane: ControlPlane, title: str, enough: Callable[[Counts], bool]) -> Counts:
    """Count the pods in one line, live on a terminal, until it is enough; returns the last counts."""
    live = sys.stdout.isatty()

    def line(counts: Counts) -> str:
        waiting = f"   waiting {counts.waiting}" if counts.waiting else ""
        return f"  {title:20}  rejected by kubelets {counts.rejected:3}   running {counts.running}{waiting}"

    counts = Counts(0, 0, 0)

    def counted() -> bool:
        nonlocal counts
        counts = count(plane)
        if live:
            sys.stdout.write(f"\r{line(counts)} ")
            sys.stdout.flush()
        return enough(counts)

    plane.wait_for(title, counted)
    say("" if live else line(counts))
    return counts


def count(plane: ControlPlane) -> Counts:
    """What has become of the pods."""
    items = plane.api.get(PODS)["items"]
    phases = [raw["status"]["phase"] for raw in items]
    gated = sum("schedulingGates" in raw["spec"] for raw in items)
    return Counts(phases.count("Failed"), phases.count("Running"), gated)


def running(plane: ControlPlane) -> list[dict[str, Any]]:
    """The running pods."""
    return [raw for raw in plane.api.get(PODS)["items"] if raw["status"]["phase"] == "Running"]


def stay(plane: ControlPlane) -> None:
    """Keep everything running until Ctrl-C."""
    kubectl = shlex.quote(str(plane.assets["kubectl"]))
    say(f"It runs on, with the nodes and pods of {relative(CLUSTER)} as well. In another terminal:")
    say(f"  export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}")
    say(f"  {kubectl} get nodes,noderesourcetopologies,pods")
    say(f"  {kubectl} create -f examples/mistakes/     # refused, each with its fault and cure")
    say(f"  {kubectl} create -f examples/workloads.yaml")
    say("Ctrl-C here ends and removes everything.")
    while True:
        time.sleep(1)
        for process in [*plane.processes, *plane.guests.values()]:
            process.require_running()


def show(plane: ControlPlane, *arguments: str) -> None:
    """Run kubectl visibly."""
    say(f"$ kubectl {shlex.join(arguments)}")
    for line in plane.kubectl(*arguments).splitlines():
        say(f"    {line}")


def expect(outcome: bool, otherwise: str) -> None:
    """Fail unless the demo has seen what it announces."""
    if not outcome:
        raise NotReadyError(f"not as told: {otherwise}")


def step(title: str) -> None:
    """Print a heading."""
    say(f"\n=== {title}")


def say(line: str) -> None:
    """Print a line at once, also into a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def relative(path: Path) -> str:
    """A path as the user types it."""
    return str(path.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
