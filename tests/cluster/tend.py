"""Keeps a control plane and its webhook running while users break them, as init, kubelets and a controller would.

- A program that ended for any reason is restarted: a component with its stored data, a replica on its ports, a real
  kubelet with its checkpoints.
- A replica whose Pod was deleted is asked to end. Then another Pod and process of that name replace it.
- A program that ends soon after its start is an error: its log says why, and another start would not help.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING

from tests.cluster.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.process import Process
    from tests.cluster.real_kubelets import RealKubelets
    from tests.cluster.webhook_process import LocalWebhook

# No program is useful earlier; a control plane needs three seconds to be ready.
SHORTEST_LIFE_SECONDS = 2.0


class Tender:
    """Restarts what is down. Call `tend` repeatedly."""

    def __init__(
        self,
        plane: ControlPlane,
        webhook: LocalWebhook | None,
        kubelets: RealKubelets | None,
        tell: Callable[[str], None],
    ) -> None:
        self._plane = plane
        self._webhook = webhook
        self._kubelets = kubelets
        self._tell = tell
        self._started: dict[str, float] = {}

    def tend(self) -> None:
        """Restart what is down. Raises `ProcessEndedError` for a program that was started only a moment ago."""
        for process, start in [*self._components(), *self._machines(), *self._replicas()]:
            if not process.running:
                self._start(process, start)
        if self._webhook is not None:
            # The API server may be down too.
            with contextlib.suppress(ApiError, OSError, HTTPException):
                self._replace_missing_pods(self._webhook)

    def _components(self) -> Iterator[tuple[Process, Callable[[], None]]]:
        for process in self._plane.processes:
            yield process, partial(self._plane.restart, process.name)

    def _machines(self) -> Iterator[tuple[Process, Callable[[], None]]]:
        if self._kubelets is not None:
            for process in self._kubelets.processes:
                yield process, partial(self._kubelets.restart, process.name)

    def _replicas(self) -> Iterator[tuple[Process, Callable[[], None]]]:
        for replica in self._webhook.replicas if self._webhook is not None else ():
            yield replica.process, partial(replica.start, replica.backend)

    def _start(self, process: Process, start: Callable[[], None]) -> None:
        if time.monotonic() - self._started.get(process.name, 0.0) < SHORTEST_LIFE_SECONDS:
            process.require_running()
        self._tell(f"{process.name} ended with exit code {process.exit_code}; it is started again")
        start()
        self._started[process.name] = time.monotonic()

    def _replace_missing_pods(self, webhook: LocalWebhook) -> None:
        missing = webhook.services.missing_pods()
        for replica in webhook.replicas:
            if replica.name in missing:
                self._tell(f"the Pod {replica.name} was deleted; another one takes its place")
                replica.process.stop()
                webhook.services.replace_pod(replica.name)
                replica.start(replica.backend)
