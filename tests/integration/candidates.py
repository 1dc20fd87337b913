"""Candidates for one Lease of the control plane."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.cluster.stalling import Network
from webhook.kube.client import Client
from webhook.kube.election import Term, Timing
from webhook.kube.lease import LeaderElection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane


QUICK = Timing(lease_duration=3, renew_deadline=2, retry_period=0.3)


@dataclass
class LeaseCandidate:
    """A candidate, and what it was notified of."""

    network: Network
    client: Client
    election: LeaderElection = field(init=False)
    task: asyncio.Task[None] = field(init=False)
    events: list[Term | None] = field(default_factory=list)
    """A term for each start, None for each stop."""

    def leads(self) -> bool:
        return self.election.is_leader()

    async def kill(self) -> None:
        """End it without a release of the Lease, as SIGKILL would."""
        self.task.cancel()
        await asyncio.wait({self.task})


class LeaseCandidates:
    """Candidates for one Lease of a namespace. No two of them may ever lead at the same time."""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path) -> None:
        self.api = plane.api
        self.path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/leader"
        self.candidates: list[LeaseCandidate] = []
        self._plane = plane
        self._namespace = namespace
        self._folder = folder

    @property
    def lease(self) -> Any:
        return self.api.get(self.path)

    def leaders(self) -> list[LeaseCandidate]:
        return [candidate for candidate in self.candidates if candidate.leads()]

    @asynccontextmanager
    async def candidate(self, timing: Timing) -> AsyncIterator[LeaseCandidate]:
        name = f"c{len(self.candidates)}"
        async with Network.to(self._plane.url) as network:
            kubeconfig = self._folder / f"{name}.kubeconfig"
            kubeconfig.write_text(self._plane.kubeconfig.read_text().replace(self._plane.url, network.url))
            async with await Client.connect(kubeconfig) as client:
                one = LeaseCandidate(network, client)
                lease = self._namespace, "leader"
                one.election = LeaderElection(
                    client, lease, name, timing, one.events.append, lambda: one.events.append(None)
                )
                one.task = asyncio.create_task(one.election.run())
                self.candidates.append(one)
                try:
                    yield one
                finally:
                    network.open.set()
                    await one.kill()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                assert len(self.leaders()) <= 1
                await asyncio.sleep(0.01)
