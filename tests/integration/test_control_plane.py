"""The control plane itself: it starts, says no where RBAC says no, schedules, and ends however we end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cluster.api import Api, ApiError
from tests.cluster.control_plane import CommandError, ControlPlane
from tests.cluster.nodes import Machine
from tests.cluster.run_folder import run_folder
from tests.cluster.toolchain import parse_version
from tests.integration.programs import pod, programs_of

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
STARTER = """
import sys, time
from tests.cluster.assets import find_assets
from tests.cluster.control_plane import ControlPlane
with ControlPlane.start(find_assets(print)) as plane:
    print(plane.folder, flush=True)
    time.sleep(600)
"""


def test_the_scheduler_binds_a_pod_to_the_made_node_that_has_room(
    control_plane: ControlPlane, namespace: str, create_machines: Callable[..., None]
) -> None:
    create_machines(Machine("small", free=(2, 2), cpus=2), Machine("large", free=(8, 8), cpus=8))
    control_plane.kubectl("create", "-n", namespace, "-f", "-", input=yaml.safe_dump(pod("p", cpu="6")))
    path = f"/api/v1/namespaces/{namespace}/pods/p"
    assert control_plane.wait_for("binding", lambda: control_plane.api.get(path)["spec"].get("nodeName")) == "large"


def test_a_replica_set_gets_its_pods_and_a_deleted_namespace_keeps_none(
    control_plane: ControlPlane, create_machines: Callable[..., None]
) -> None:
    create_machines(Machine("n0", free=(8, 8)))
    control_plane.create_namespace("web")
    control_plane.kubectl("create", "deployment", "web", "--image=none", "--replicas=3", "-n", "web")

    def bound() -> list[str]:
        pods = control_plane.api.get("/api/v1/namespaces/web/pods")["items"]
        return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == "n0"]

    control_plane.wait_for("three bound pods", lambda: len(bound()) == 3)
    control_plane.delete_namespace("web")
    assert bound() == []


def test_a_service_account_may_not_do_what_it_was_not_granted(control_plane: ControlPlane, namespace: str) -> None:
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "default")
    with pytest.raises(CommandError, match=f"system:serviceaccount:{namespace}:default"):
        control_plane.kubectl("--kubeconfig", kubeconfig, "get", "nodes")


def test_an_error_of_the_api_server_names_its_reason(control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError, match="NotFound") as caught:
        control_plane.api.get("/api/v1/namespaces/default/pods/none")
    assert caught.value.status == 404


def test_the_api_server_and_helm_know_their_versions(control_plane: ControlPlane) -> None:
    # Built without the linker's flags they would say v0.0.0-master and v4.
    assert parse_version(control_plane.api.get("/version")["gitVersion"]) >= (1, 30)
    assert len(parse_version(control_plane.helm("version", "--short"))) == 3


def test_every_program_ends_when_the_starter_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER], cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        folder = starter.stdout.readline().strip()
        assert len(programs_of(folder)) >= 4
        starter.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while programs_of(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert programs_of(folder) == []
    with run_folder():  # the next run clears away what the killed one left
        assert not Path(folder).exists()


def test_connections_are_used_again(control_plane: ControlPlane) -> None:
    api: Api = control_plane.api
    api.get("/version")
    before = list(api._idle)
    api.get("/version")
    assert api._idle == before
