from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.chart.helm import Helm, Rendered


@pytest.fixture(scope="session")
def helm(programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(programs["helm"], tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def rendered(helm: Helm) -> Rendered:
    """The chart with its default values, release `tw` in namespace `placement`."""
    return helm.template()
