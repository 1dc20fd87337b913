"""`waiting` of a live cluster, and as it changes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import Machine
from tests.cluster.racked import webhook
from tests.unit.cli.conftest import run_command

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["webhook"]  # a fixture: the service

PROGRAM = Path(sys.executable).with_name("topology-webhook")


def test_what_waits_is_listed_with_the_services_reason(pods: Pods, known: Callable[..., None]) -> None:
    known(Machine("m0", free=(8, 8)))
    pods.create(pod("large", cpu=12))
    pods.wait_until_says("large", "no single NUMA node with 12 cpu")
    outcome = run_command("waiting", "-o", "json", "--kubeconfig", pods.plane.kubeconfig)
    (entry,) = (each for each in outcome.json["waiting"] if each["namespace"] == pods.namespace)
    assert (entry["name"], entry["gang"], entry["pods"][0]["waitsFor"]) == ("large", False, "Service")
    assert "no single NUMA node with 12 cpu" in entry["reason"]


def test_the_end_of_the_named_pods_lets_the_pod_run(pods: Pods, known: Callable[..., None]) -> None:
    known(Machine("m0", free=(16, 16), publisher="koordlet"))
    for name in ("a", "b"):  # each in a NUMA node of its own
        pods.create(pod(name, cpu=10))
        pods.wait_until_bound(name)
    pods.create(pod("large", cpu=12))
    pods.wait_until_says("large", "no single NUMA node with 12 cpu")
    outcome = run_command("waiting", "-o", "json", "--kubeconfig", pods.plane.kubeconfig)
    (entry,) = (each for each in outcome.json["waiting"] if each["namespace"] == pods.namespace)
    frees = entry["frees"]
    assert (frees["helps"], frees["node"], frees["atLeast"], len(frees["pods"])) == ("Pods", "m0", 1, 1)
    pods.delete(*(key.partition("/")[2] for key in frees["pods"]))
    pods.wait_until_bound("large")


def test_changes_are_printed_until_the_command_is_interrupted(pods: Pods, known: Callable[..., None]) -> None:
    known(Machine("m0", free=(8, 8)))
    command = [str(PROGRAM), "waiting", "--watch", "-o", "json", "--kubeconfig", str(pods.plane.kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None

        def read_until(names: set[str]) -> None:
            """Read lines until exactly these pods of the namespace wait."""
            assert watching.stdout is not None
            for line in watching.stdout:
                waiting = json.loads(line)["waiting"]
                if {each["name"] for each in waiting if each["namespace"] == pods.namespace} == names:
                    return
            raise AssertionError(names)

        try:
            read_until(set())
            pods.create(pod("large", cpu=12))
            read_until({"large"})
            pods.delete("large")
            read_until(set())
        finally:
            watching.send_signal(signal.SIGINT)
            watching.communicate()
    assert watching.returncode == 0
