from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.chart.helm import Helm, Rendered
from tests.chart.release import InstalledRelease
from tests.cluster.control_plane import ControlPlane


@pytest.fixture(scope="session")
def helm(programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(programs["helm"], tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def rendered(helm: Helm) -> Rendered:
    """The chart with its default values, release `tw` in namespace `placement`."""
    return helm.template()


@pytest.fixture
def release(control_plane: ControlPlane, namespace: str) -> Iterator[InstalledRelease]:
    """A release to install. It is uninstalled afterwards in any case."""
    release = InstalledRelease(control_plane, namespace)
    yield release
    release.uninstall()
