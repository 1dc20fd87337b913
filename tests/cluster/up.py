"""A control plane in the foreground, for people and for programs that wait for its READY line.

1. Find or build the programs, start the control plane, install the CRDs, create the requested machines: Nodes without a
   kubelet, and machines with a real one beside the exporter of another project.
2. With --webhook: install the chart and run its replicas (webhook_process.py).
3. Print `READY kubeconfig=PATH`: pods can be created, and the webhook is called.
4. Wait for Ctrl-C or SIGTERM; what ends or is deleted meanwhile is restarted (tend.py). Then end everything.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
import time
from typing import TYPE_CHECKING

from tests.cluster.assets import find_assets
from tests.cluster.control_plane import ControlPlane
from tests.cluster.nodes import create_machines, machines
from tests.cluster.real_kubelets import real_kubelets, require_possible
from tests.cluster.tend import Tender
from tests.cluster.webhook_process import NAMESPACE, local_webhook
from tests.neighbours.exporters import EXPORTERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import FrameType

    from tests.cluster.kubelets import SimulatedMachine

WATCH_SECONDS = 0.5


def up(
    *,
    webhook: bool,
    replicas: int,
    values: Path | None,
    nodes: int,
    zones: int,
    kubernetes: str | None = None,
    kubelets: Sequence[SimulatedMachine] = (),
    exporter: str = "",
) -> None:
    """Run until a signal. `zones` NUMA nodes on each of `nodes` machines. kubernetes: the version, if not the usual.

    kubelets: the machines with a real kubelet. exporter: of EXPORTERS, for those; empty: none.
    """
    leave_on_signals()
    if kubelets:
        require_possible(len(kubelets))
    start = time.monotonic()
    with ControlPlane.start(find_assets(tell, kubernetes=kubernetes)) as plane, contextlib.ExitStack() as stack:
        tell(f"control plane on {plane.url} ({time.monotonic() - start:.1f} s); logs in {plane.folder}")
        plane.install_crds()
        if nodes:
            create_machines(plane.api, machines(nodes, zones))
            tell(f"{nodes} nodes with {zones} NUMA nodes of 16 CPUs each")
        fleet = None
        if kubelets:
            fleet = stack.enter_context(real_kubelets(plane, kubelets))
            tell(f"{len(kubelets)} machines with a real kubelet")
            if exporter:
                stack.enter_context(EXPORTERS[exporter](plane, kubelets, fleet.state, tell))
        running = None
        if webhook:
            running = stack.enter_context(local_webhook(plane, replicas=replicas, values=values))
            tell(f"webhook on {running.url} with {replicas} replicas; chart in namespace {NAMESPACE}")
            for replica in running.replicas:
                if replica.page_url:
                    tell(f"page of {replica.name}: {replica.page_url}")
            mode = running.replicas[0].mode
            if mode != "Enforce":
                tell(f"note: in the mode {mode} it denies and changes nothing")
            elif not running.wait_until_called():
                tell("note: with these values the API server does not call it for pods in the namespace default")
        tell(shlex.join(["env", f"KUBECONFIG={plane.kubeconfig}", str(plane.assets["kubectl"]), "get", "nodes"]))
        print(f"READY kubeconfig={plane.kubeconfig}", flush=True)  # noqa: T201 - the answer; progress is on stderr
        tender = Tender(plane, running, fleet, tell)
        while True:
            time.sleep(WATCH_SECONDS)
            tender.tend()


def tell(line: str) -> None:
    """A line of progress."""
    sys.stderr.write(f"==> {line}\n")
    sys.stderr.flush()


def leave_on_signals() -> None:
    """Make Ctrl-C and SIGTERM run every `finally`, so that no program is left running."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)


def _leave(number: int, _frame: FrameType | None) -> None:
    """Exit, and ignore further signals: they must not interrupt the cleanup."""
    for again in (signal.SIGINT, signal.SIGTERM):
        signal.signal(again, signal.SIG_IGN)
    raise SystemExit(0 if number == signal.SIGTERM else 130)
