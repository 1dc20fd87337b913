"""`serve` as a process, without an API server."""

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.cluster.ports import free_port

# A process that imports everything needs one; on a machine that does much else, ten.
START_SECONDS = 60
PROGRAM = Path(sys.executable).with_name("topology-webhook")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A kubeconfig for an API server that does not exist."""
    named = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [named],
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}],
        "users": [{"name": "x", "user": {"token": "x"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@contextmanager
def serving(*flags: str) -> Iterator[subprocess.Popen[str]]:
    command: list[str | Path] = [PROGRAM, "serve", "--bind-address=127.0.0.1", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def get(url: str) -> tuple[int, str]:
    """Status and text of the first answer."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own http URL
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_without_an_api_server_it_is_alive_not_ready_says_why_and_ends_when_asked(kubeconfig: Path) -> None:
    port = free_port()
    with serving(f"--kubeconfig={kubeconfig}", f"--metrics-port={port}", "--port=0") as process:
        assert get(f"http://127.0.0.1:{port}/healthz") == (200, "ok\n")
        deadline = time.monotonic() + START_SECONDS
        while "Cannot connect" not in (told := get(f"http://127.0.0.1:{port}/readyz"))[1]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert told[0] == 503
        assert "informer nodes: " in told[1]
        assert "certificate: " in told[1]
        assert get(f"http://127.0.0.1:{port}/metrics")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_SECONDS) == 0


def test_a_port_that_is_taken_ends_the_page_with_2_and_a_sentence() -> None:
    snapshot = Path(__file__).parents[3] / "examples" / "snapshots" / "cluster.yaml"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [PROGRAM, "page", "--cluster", snapshot, "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f"cannot listen on 127.0.0.1 port {port}: address already in use" in line


def test_a_port_that_is_taken_ends_it_with_1_and_a_sentence(kubeconfig: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with serving(f"--kubeconfig={kubeconfig}", f"--metrics-port={taken.getsockname()[1]}") as process:
            assert process.wait(START_SECONDS) == 1
            assert process.stdout is not None
            last = process.stdout.read().splitlines()[-1]
    assert "serve.failed" in last
    assert "address already in use" in last


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--kubeconfig=/nowhere/kubeconfig"], "There is no kubeconfig at /nowhere/kubeconfig"),
        (["--context=nobody"], "There is no context 'nobody'"),
        (["--tls-names=not a name"], "neither a DNS name nor an IP address"),
    ],
)
def test_what_cannot_be_started_from_ends_it_with_1_and_a_sentence(
    kubeconfig: Path, flags: list[str], sentence: str
) -> None:
    with serving(f"--kubeconfig={kubeconfig}", f"--metrics-port={free_port()}", *flags) as process:
        assert process.wait(START_SECONDS) == 1
        assert process.stdout is not None
        last = process.stdout.read().splitlines()[-1]
    assert sentence in last
    assert "Traceback" not in last


def test_a_task_that_fails_in_the_background_is_told_counted_and_started_again_and_the_process_lives(
    kubeconfig: Path,
) -> None:
    port = free_port()
    program = f"""
import sys
from webhook.app import informers, main
from webhook.app.settings import Settings

async def crash(self):
    raise ZeroDivisionError("a fault of ours")

informers.Informer.run = crash
sys.exit(main.run(Settings.load({{"kubeconfig": {str(kubeconfig)!r}, "port": 0, "metrics_port": {port}}})))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + START_SECONDS
        while _faults_of_tasks(port) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert get(f"http://127.0.0.1:{port}/healthz") == (200, "ok\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_SECONDS) == 0
        assert process.stdout is not None
        told = process.stdout.read()
    assert "a fault of ours" in told
    assert "Traceback" in told


def _faults_of_tasks(port: int) -> float:
    lines = get(f"http://127.0.0.1:{port}/metrics")[1].splitlines()
    name = 'topology_webhook_internal_errors_total{where="task"} '
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))
