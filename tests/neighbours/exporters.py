"""The exporters of NodeResourceTopologies that the proof can run, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.neighbours.build import find_neighbour
from tests.neighbours.catalogue import KOORDLET, NFD, RTE
from tests.neighbours.koordlet import koordlet
from tests.neighbours.node_feature_discovery import nfd_topology_updater
from tests.neighbours.resource_topology_exporter import resource_topology_exporter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine

    Exporter = Callable[
        [ControlPlane, Sequence[SimulatedMachine], Path, Callable[[str], None]], AbstractContextManager[object]
    ]


def _nfd(
    plane: ControlPlane, machines: Sequence[SimulatedMachine], state: Path, tell: Callable[[str], None]
) -> AbstractContextManager[None]:
    return nfd_topology_updater(plane, find_neighbour(NFD, tell), machines, state)


def _rte(
    plane: ControlPlane, machines: Sequence[SimulatedMachine], state: Path, tell: Callable[[str], None]
) -> AbstractContextManager[object]:
    return resource_topology_exporter(plane, find_neighbour(RTE, tell), machines, state)


def _koordlet(
    plane: ControlPlane, machines: Sequence[SimulatedMachine], state: Path, tell: Callable[[str], None]
) -> AbstractContextManager[object]:
    return koordlet(plane, find_neighbour(KOORDLET, tell), machines, state)


EXPORTERS: Final[Mapping[str, Exporter]] = {NFD.name: _nfd, RTE.name: _rte, KOORDLET.name: _koordlet}
