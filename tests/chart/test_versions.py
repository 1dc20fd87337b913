"""The chart installs on the Kubernetes versions that the docs name, and on no older one."""

import re
from pathlib import Path

import pytest
import yaml

from tests.chart.helm import CHART, IMAGE, Helm, RefusedError
from tests.cluster.toolchain import parse_version
from tests.cluster.versions import module_of, pinned, versions

ROOT = Path(__file__).parents[2]
OLDEST = versions()[0]
MAJOR, MINOR = parse_version(OLDEST)


def rendered_for(helm: Helm, release: str) -> str:
    return helm.run(
        *("template", "tw", str(CHART), "--kube-version", release, "--values", "-"), input=yaml.safe_dump(IMAGE)
    )


def test_every_version_that_is_tested_gets_the_same_objects(helm: Helm) -> None:
    releases = [pinned("k8s.io/kubernetes", module_of(version)) for version in versions()]
    assert len({rendered_for(helm, release) for release in releases}) == 1


@pytest.mark.parametrize("suffix", ["", "-eks-1a2b3c4", "-gke.1234000"])
def test_releases_of_providers_are_accepted(helm: Helm, suffix: str) -> None:
    assert rendered_for(helm, f"v{OLDEST}.0{suffix}")


def test_the_version_before_the_oldest_is_refused(helm: Helm) -> None:
    with pytest.raises(RefusedError, match=rf"requires kubeVersion: >={OLDEST}\.0-0 which is incompatible"):
        rendered_for(helm, f"v{MAJOR}.{MINOR - 1}.14")


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "charts/topology-webhook/README.md"])
def test_the_pages_name_the_oldest_version_that_is_tested(page: str) -> None:
    named = re.findall(r"Kubernetes (\d+\.\d+) or newer", (ROOT / page).read_text())
    assert named == [OLDEST]
