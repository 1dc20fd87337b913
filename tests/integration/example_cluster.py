"""The examples' cluster with the service, and a snapshot of it by the command of docs/review.md."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cluster.kinds import served
from tests.cluster.lws_webhook import pod_webhook_of_lws
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, Machine, present
from tests.cluster.racked import topology_of_racks
from tests.cluster.webhook_process import local_webhook
from tests.unit.cli.conftest import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane


HALL_LABEL = "example.com/hall"


def machine(number: int, rack: int, numa_nodes: int) -> Machine:
    labels = {ZONE_LABEL: "zone-0", HALL_LABEL: "hall-0", RACK_LABEL: f"rack-{rack}"}
    return Machine(f"n{number}", free=(16,) * numa_nodes, labels=labels)


FLEET = [
    *(machine(number, 0, 1) for number in (0, 1, 2)),
    *(machine(number, 1, 2) for number in (3, 4)),
    *(machine(number, 2, 2) for number in (5, 6, 7, 8)),
    replace(machine(9, 3, 1), policy="restricted"),
]


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cluster with the service, and a snapshot of it by the command of docs/review.md."""
    (topology, *_) = yaml.safe_load_all((EXAMPLES / "gang.yaml").read_text())
    with contextlib.ExitStack() as stack:
        for each in (served(control_plane), pod_webhook_of_lws(control_plane), topology_of_racks(control_plane)):
            stack.enter_context(each)
        control_plane.kubectl("create", "--filename", "-", input=json.dumps(topology))
        stack.callback(control_plane.kubectl, "delete", "topologies.kai.scheduler", topology["metadata"]["name"])
        stack.enter_context(local_webhook(control_plane))
        # The service learns of the nodes in another order than the snapshot has. The answer must not depend on it.
        stack.enter_context(present(control_plane.api, FLEET[::-1]))
        yield node_arrays(control_plane, tmp_path_factory.mktemp("snapshot"))[0]


REVIEW = (Path(__file__).parents[2] / "docs" / "review.md").read_text()


def node_arrays(plane: ControlPlane, folder: Path) -> tuple[Path, str]:
    """The snapshot of the page's command, and its stderr."""
    (command,) = re.findall(r"^ *\$ (for kind in .*?> cluster\.yaml)$", REVIEW, re.MULTILINE | re.DOTALL)
    environment = {"PATH": f"{plane.assets['kubectl'].parent}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**environment, "KUBECONFIG": str(plane.kubeconfig)},
        check=True,
    )
    return folder / "cluster.yaml", done.stderr
