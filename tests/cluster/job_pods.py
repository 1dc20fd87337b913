"""The pods of a namespace's Jobs and of `helm test`, run as local processes: what a kubelet does for the chart's hooks.

1. The Job controller or helm creates the Pod. A thread finds it and runs its container's arguments with the program of
   this source, as the Pod's ServiceAccount.
2. When the process ends, the Pod's phase is written, as a kubelet would; the Job controller then completes the Job.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from tests.cluster.api import ApiError
from tests.cluster.webhook_process import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.control_plane import ControlPlane

JOB_NAME = "batch.kubernetes.io/job-name"
HOOK = "helm.sh/hook"
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Run:
    """One pod that was run."""

    job: str
    """Empty: a pod of helm's own."""
    arguments: tuple[str, ...]
    code: int
    stdout: str
    stderr: str


class JobPods:
    """The pods that were run so far. Use `job_pods()`."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.runs: list[Run] = []
        self._plane = plane
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._done: set[str] = set()

    def run_new(self) -> None:
        """Run the pods that have not been run yet, one after the other.

        As a kubelet, it does not run a pod again whose phase says that it ended: a failed Job of an earlier context
        keeps its pods until the garbage collector has followed the Job's deletion.
        """
        for pod in self._plane.api.get(self._path)["items"]:
            metadata = pod["metadata"]
            uid, is_hook = metadata["uid"], HOOK in metadata.get("annotations", {})
            of_a_job = JOB_NAME in metadata.get("labels", {})
            to_run = (
                pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in metadata and (is_hook or of_a_job)
            )
            if to_run and uid not in self._done:
                self._done.add(uid)
                self._run(pod)

    def _run(self, pod: Mapping[str, Any]) -> None:
        (container,) = pod["spec"]["containers"]
        kubeconfig = self._plane.service_account_kubeconfig(self._namespace, pod["spec"]["serviceAccountName"])
        environment = {each["name"]: each["value"] for each in container.get("env", ())}
        done = subprocess.run(
            [PROGRAM, *container["args"]],
            env={**environment, "KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )
        job = pod["metadata"]["labels"].get(JOB_NAME, "")
        self.runs.append(Run(job, tuple(container["args"]), done.returncode, done.stdout, done.stderr))
        ended = {"exitCode": done.returncode, "reason": "Error" if done.returncode else "Completed"}
        status = {
            "phase": "Failed" if done.returncode else "Succeeded",
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"terminated": ended},
                }
            ],
        }
        with contextlib.suppress(ApiError):  # its Job's deadline has passed, so it was deleted
            self._plane.api.request(
                "PATCH",
                f"{self._path}/{pod['metadata']['name']}/status",
                {"status": status},
                "application/strategic-merge-patch+json",
            )


@contextlib.contextmanager
def job_pods(plane: ControlPlane, namespace: str) -> Iterator[JobPods]:
    """Run the pods of all Jobs of a namespace, and those that are hooks, within this context."""
    pods, ended = JobPods(plane, namespace), threading.Event()

    def loop() -> None:
        while not ended.wait(POLL_SECONDS):
            with contextlib.suppress(ApiError, OSError, HTTPException):
                pods.run_new()

    thread = threading.Thread(target=loop, name="pods of Jobs")
    thread.start()
    try:
        yield pods
    finally:
        ended.set()
        thread.join()
