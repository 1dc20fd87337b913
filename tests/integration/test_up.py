"""`python -m tests.cluster up`: what it prints, when it is ready, and that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.webhook_process import NAMESPACE
from tests.integration.programs import pod, programs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def up(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """`up` in a process of its own, and the kubeconfig of its READY line."""
    argv = [sys.executable, "-m", "tests.cluster", "up", *arguments]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("READY kubeconfig="), process.communicate(timeout=60)[1]
            yield process, Path(line.removeprefix("READY kubeconfig=").strip())
        finally:
            process.terminate()
            process.communicate(timeout=60)


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_pods_can_be_created_once_it_is_ready_and_a_signal_ends_everything(
    number: signal.Signals, exit_code: int, programs: Mapping[str, Path]
) -> None:
    with up("--nodes", "2", "--zones", "4") as (process, kubeconfig):

        def kubectl(*arguments: str, stdin: str = "") -> str:
            argv = [str(programs["kubectl"]), "--kubeconfig", str(kubeconfig), *arguments]
            return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=True).stdout

        kubectl("create", "-f", "-", stdin=json.dumps(pod("p", cpu="1")))
        assert kubectl("get", "nodes,noderesourcetopologies", "-o", "name").split() == [
            "node/node-0000",
            "node/node-0001",
            "noderesourcetopology.topology.node.k8s.io/node-0000",
            "noderesourcetopology.topology.node.k8s.io/node-0001",
        ]
        assert len(programs_of(str(kubeconfig.parent))) >= 4
        process.send_signal(number)
        assert process.wait(60) == exit_code
        assert programs_of(str(kubeconfig.parent)) == []
        assert not kubeconfig.parent.exists()


def test_the_webhook_is_called_once_it_is_ready_and_leaves_no_process(programs: Mapping[str, Path]) -> None:
    broken = pod("p", cpu="1")
    broken["metadata"]["annotations"] = {"scheduling.koordinator.sh/numa-topology-spec": "{,}"}
    with up("--webhook", "--replicas", "2", "--nodes", "2") as (process, kubeconfig):
        create = [str(programs["kubectl"]), "--kubeconfig", str(kubeconfig), "create", "-f", "-"]
        done = subprocess.run(create, input=json.dumps(broken), capture_output=True, text=True, check=False)
        assert "denied the request: metadata.annotations[scheduling.koordinator.sh/numa-topology-spec]" in done.stderr
        process.terminate()
        assert process.wait(60) == 0
        assert programs_of(str(kubeconfig.parent)) == []


@pytest.mark.usefixtures("programs")
def test_it_says_what_observe_does_and_where_the_page_of_each_replica_is(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("settings: {mode: Observe}\npage: {enabled: true}\n")
    with up("--webhook", "--replicas", "2", "--values", str(values)) as (process, _):
        assert process.stderr is not None
        told: list[str] = []
        while "get nodes" not in "".join(told[-1:]):
            told.append(process.stderr.readline())
        pages = re.findall(r"page of topology-webhook-\d: (\S+)", "".join(told))
        assert len(set(pages)) == 2
        for page in pages:
            with urllib.request.urlopen(page, timeout=10) as answer:  # noqa: S310 - our own
                assert answer.status == 200
    (note,) = (line for line in told if "note: " in line)
    assert note.endswith("in the mode Observe it denies and changes nothing\n")


def test_what_somebody_kills_or_deletes_is_there_again(programs: Mapping[str, Path]) -> None:
    with up("--webhook", "--replicas", "2", "--nodes", "2") as (process, kubeconfig):

        def kubectl(*arguments: str) -> str:
            argv = [
                str(programs["kubectl"]),
                "--kubeconfig",
                str(kubeconfig),
                f"--namespace={NAMESPACE}",
                *arguments,
            ]
            return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

        def leader() -> str:
            holder = kubectl("get", "lease", "topology-webhook", "--output=jsonpath={.spec.holderIdentity}")
            return f"pod/{holder.rpartition('_')[0]}" if holder else ""

        def wait_until_guarded() -> None:
            deadline = time.monotonic() + 60
            while not (leader() and kubectl("get", "pods").count("1/1") == 2):
                assert time.monotonic() < deadline, kubectl("get", "pods")
                time.sleep(0.2)

        wait_until_guarded()
        first = leader().strip()
        before = kubectl("get", first, "--output=jsonpath={.metadata.uid}")
        kubectl("delete", first)
        wait_until_guarded()
        assert kubectl("get", first, "--output=jsonpath={.metadata.uid}") != before
        for program in ("topology-webhook", "kube-scheduler"):
            killed = pids_of(str(kubeconfig.parent), program)
            assert killed
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while len(pids_of(str(kubeconfig.parent), "topology-webhook")) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        wait_until_guarded()
        assert process.poll() is None


def pids_of(folder: str, program: str) -> list[int]:
    """The live processes of a program that was started for the run of this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            argv = (process / "cmdline").read_bytes().decode().split("\0")
            names = [Path(part).name for part in argv[:2]]
            if program in names and any(folder in part for part in argv):
                found.append(int(process.name))
    return found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--replicas", "0"], "0 is less than 1"),
        (["--nodes", "-1"], "-1 is less than 0"),
        (["--values", "none.yaml"], "there is no file none.yaml"),
    ],
)
def test_wrong_use_is_told_before_anything_starts(arguments: list[str], message: str) -> None:
    argv = [sys.executable, "-m", "tests.cluster", "up", *arguments]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert message in done.stderr
