"""python -m tests.demo [--keep]: what the webhook does, step by step, in about a minute once all is built.

1. Offline: `topology-webhook review` reviews the example pod against a snapshot of a cluster.
2. A real control plane on loopback (built at the first run), with the snapshot's nodes and pods in it.
3. Without the webhook: the scheduler picks a node where the sum fits and no NUMA node does.
4. The chart is installed. The webhook runs here with the chart's arguments and rights.
5. With the webhook: the same pod, the same scheduler, the right node. `kubectl describe` shows why.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.cluster.assets import AssetError, find_assets
from tests.cluster.build import BuildFailedError
from tests.cluster.control_plane import CommandError, ControlPlane, NotReadyError
from tests.cluster.process import ProcessEndedError
from tests.cluster.up import leave_on_signals, tell
from tests.cluster.webhook_process import PROGRAM, local_webhook
from tests.demo.example import CLUSTER, EXAMPLES, POD, POD_CPUS, RIGHT, WRONG, example_cluster, node_of

if TYPE_CHECKING:
    from pathlib import Path

ROOT = EXAMPLES.parent
POD_NAME = "solver"


def main() -> int:
    """Run the demo. 0: everything happened as announced; 1: it did not."""
    options = parser().parse_args()
    leave_on_signals()
    try:
        demo(keep=options.keep)
    except (AssetError, BuildFailedError, CommandError, NotReadyError, ProcessEndedError) as error:
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
    step("2. The same on a real control plane: kube-apiserver, etcd and an unmodified kube-scheduler on loopback")
    programs = find_assets(tell)
    with ControlPlane.start(programs) as plane, contextlib.ExitStack() as stack:
        plane.install_crds()
        stack.enter_context(example_cluster(plane))
        say(f"The control plane answers on {plane.url}, with the nodes and pods of {relative(CLUSTER)} in it.")
        without_webhook(plane)
        step("4. helm installs charts/topology-webhook; the webhook runs here, with the chart's arguments and rights")
        webhook = stack.enter_context(local_webhook(plane))
        webhook.wait_until_called()
        show(plane, "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations")
        with_webhook(plane)
        step("Done")
        if keep:
            stay(plane)
        else:
            say("KEEP=1 make demo leaves it running for you to try; make test proves more of this.")


def review() -> None:
    """Step 1."""
    command = [PROGRAM.name, "review", "-f", relative(POD), "--cluster", relative(CLUSTER)]
    say(f"$ {shlex.join(command)}")
    subprocess.run([PROGRAM, *command[1:]], cwd=ROOT, check=True)


def without_webhook(plane: ControlPlane) -> None:
    """Step 3."""
    step("3. Without the webhook")
    say("$ kubectl create -f examples/pod.yaml")
    plane.kubectl("create", "--filename", POD)
    node = node_of(plane, POD_NAME)
    say(f"The scheduler bound it to {node}: most cpus free in sum, 7 on each NUMA node, and the pod needs {POD_CPUS}")
    say("on one. That node's kubelet would answer TopologyAffinityError, and a controller would try again and again.")
    expect(node == WRONG, f"the scheduler alone was to choose {WRONG}, it chose {node}")
    plane.kubectl("delete", "pod", POD_NAME, "--grace-period=0", "--force")


def with_webhook(plane: ControlPlane) -> None:
    """Step 5."""
    step("5. With the webhook: the same pod, the same scheduler")
    say("$ kubectl create -f examples/pod.yaml")
    plane.kubectl("create", "--filename", POD)
    node = node_of(plane, POD_NAME)
    expect(node in RIGHT, f"one of {', '.join(RIGHT)} was to be chosen, it is {node}")
    show(plane, "describe", "pod", POD_NAME)
    say(f"{node}: its NUMA node {RIGHT[node]} holds all {POD_CPUS} cpus.")
    say("The annotation topology-webhook.dev/placement says what was decided and why.")


def stay(plane: ControlPlane) -> None:
    """Keep everything running until Ctrl-C."""
    kubectl = shlex.quote(str(plane.assets["kubectl"]))
    say("It runs on. In another terminal:")
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
