"""The exporters of NodeResourceTopologies that the proof can run, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from tests.neighbours.build import find_neighbour
from tests.neighbours.catalogue import KOORDLET, NFD, RTE
from tests.neighbours.koordlet import koordlet
from tests.neighbours.node_feature_discovery import SLEEP_SECONDS, nfd_topology_updater
from tests.neighbours.resource_topology_exporter import ExporterConfig, resource_topology_exporter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine


class Exporter(Protocol):
    """Runs it on machines whose kubelets serve in `state`. seconds: its period; None: that of its own manifests."""

    def __call__(
        self,
        plane: ControlPlane,
        machines: Sequence[SimulatedMachine],
        state: Path,
        tell: Callable[[str], None],
        seconds: int | None = None,
    ) -> AbstractContextManager[object]: ...


def _nfd(
    plane: ControlPlane,
    machines: Sequence[SimulatedMachine],
    state: Path,
    tell: Callable[[str], None],
    seconds: int | None = None,
) -> AbstractContextManager[None]:
    return nfd_topology_updater(plane, find_neighbour(NFD, tell), machines, state, seconds or SLEEP_SECONDS)


def _rte(
    plane: ControlPlane,
    machines: Sequence[SimulatedMachine],
    state: Path,
    tell: Callable[[str], None],
    seconds: int | None = None,
) -> AbstractContextManager[object]:
    config = ExporterConfig(flags=[f"--sleep-interval={seconds}s"] if seconds else [])
    return resource_topology_exporter(plane, find_neighbour(RTE, tell), machines, state, config)


def _koordlet(
    plane: ControlPlane,
    machines: Sequence[SimulatedMachine],
    state: Path,
    tell: Callable[[str], None],
    seconds: int | None = None,
) -> AbstractContextManager[object]:
    del seconds  # no flag sets it
    return koordlet(plane, find_neighbour(KOORDLET, tell), machines, state)


EXPORTERS: Final[Mapping[str, Exporter]] = {NFD.name: _nfd, RTE.name: _rte, KOORDLET.name: _koordlet}
