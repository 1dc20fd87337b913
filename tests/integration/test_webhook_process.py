"""The chart's Deployment as local processes with its container and its rights, called by the API server."""

from __future__ import annotations

import socket
import urllib.request
from typing import Any

import pytest

from tests.cluster.control_plane import CommandError, ControlPlane
from tests.cluster.webhook_process import NAMESPACE, container_environment, free_ports, local_webhook


def test_one_replica_is_called_directly_with_the_values_and_the_rights_of_the_chart(
    control_plane: ControlPlane,
) -> None:
    with local_webhook(control_plane, values={"settings": {"logFormat": "console"}}) as webhook:
        assert webhook.wait_until_called()
        (replica,) = webhook.replicas
        assert replica.configuration["advanced"]["logFormat"] == "console"
        assert webhook.url == f"https://127.0.0.1:{replica.backend.port}"
        with pytest.raises(CommandError, match=f"system:serviceaccount:{NAMESPACE}:topology-webhook"):
            control_plane.kubectl("--kubeconfig", replica._kubeconfig, "get", "secrets")
        with urllib.request.urlopen(f"{replica.metrics_url}/metrics") as answer:  # noqa: S310 - our own http URL
            assert answer.status == 200
        replica.process.stop()
        assert replica.process.exit_code == 0
    assert not webhook.is_called()
    assert control_plane.kubectl("get", "pods", "-n", NAMESPACE, "-o", "name") == ""


def test_with_two_replicas_one_may_be_killed_and_come_back(control_plane: ControlPlane) -> None:
    with local_webhook(control_plane, replicas=2) as webhook:
        assert webhook.wait_until_called()
        killed = webhook.replicas[0]
        killed.process.kill()
        assert webhook.wait_until_called()
        killed.start_again()


def test_a_replica_whose_port_was_taken_moves_to_another(control_plane: ControlPlane) -> None:
    with local_webhook(control_plane) as webhook, socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        taken = free_ports()._replace(port=squatter.getsockname()[1])
        replica = webhook.add_replica(taken)
        replica.wait_until_ready()
        assert replica.backend.port != taken.port


def test_a_container_gets_its_environment_as_from_a_kubelet() -> None:
    def field(path: str) -> dict[str, Any]:
        return {"valueFrom": {"fieldRef": {"fieldPath": path}}}

    variables = [{"name": "A", "value": "1"}, {"name": "EMPTY"}, {"name": "POD", **field("metadata.name")}]
    assert container_environment({"env": variables}, "p-0") == {"A": "1", "EMPTY": "", "POD": "p-0"}
    assert container_environment({}, "p-0") == {}
    with pytest.raises(ValueError, match="NODE: a local process cannot know"):
        container_environment({"env": [{"name": "NODE", **field("spec.nodeName")}]}, "p-0")
