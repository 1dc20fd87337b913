"""The image: built by the Dockerfile's own steps, checked by image/check, and called by the real API server."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import webhook_process
from tests.cluster.control_plane import ControlPlane
from tests.release.distributions import run
from tests.release.image import IMAGE, Images, why_not
from tests.release.version import version

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),  # packages of Debian and wheels are downloaded: 3 minutes on an idle machine
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    """Images with the one that the Dockerfile builds."""
    images = Images(tmp_path_factory.mktemp("images"))
    try:
        images.build()
        yield images
    finally:
        images.close()


def test_it_runs_restricted_is_small_and_answers_an_example(images: Images) -> None:
    printed = images.check()
    assert re.search(r"\d+ bytes unpacked, at most \d+", printed)
    assert "allow" in printed


def test_its_user_ports_and_command_are_those_of_the_chart(images: Images) -> None:
    (found,) = json.loads(run(*images.podman, "image", "inspect", IMAGE))
    config = found["Config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("65532:65532", ["topology-webhook"], ["serve"])
    assert set(config["ExposedPorts"]) == {"8443/tcp", "8080/tcp", "8444/tcp", "8090/tcp"}
    assert version() in run(*images.podman, "run", "--rm", "--network", "none", IMAGE, "--version")


def test_the_image_is_called_by_the_real_api_server(
    images: Images, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = images.write_program(tmp_path / "topology-webhook", control_plane.folder)
    monkeypatch.setattr(webhook_process, "PROGRAM", program)
    with webhook_process.local_webhook(control_plane) as webhook:
        assert webhook.replicas[0].program == [program]
        assert webhook.is_called()
