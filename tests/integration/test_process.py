"""A supervised program ends with its starter, whichever of the two is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.process import Process, ProcessEndedError

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
STARTER = """
import sys, time
from pathlib import Path
from tests.cluster.process import Process
Process("program", ["sh", "-c", "echo $$; exec sleep 600"], Path(sys.argv[1]))
time.sleep(600)
"""
IGNORES_SIGTERM = "trap '' TERM; echo $$; while :; do sleep 0.1; done"


def eventually(condition: Callable[[], object], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # an orphan that nobody has reaped yet


def pid_in(log: Path) -> int:
    """The process id that the program wrote as its first line."""
    assert eventually(lambda: log.exists() and b"\n" in log.read_bytes())
    return int(log.read_text().split()[0])


def test_a_program_is_ended_when_its_starter_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", STARTER, log], cwd=ROOT) as starter:
        pid = pid_in(log)
        starter.kill()
    assert eventually(lambda: not alive(pid))


def test_a_program_is_ended_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    process = Process("program", ["sh", "-c", "echo $$; exec sleep 600"], tmp_path / "log")
    pid = pid_in(process.log)
    process.kill()
    assert eventually(lambda: not alive(pid))
    process.stop()


def test_a_program_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    process = Process("program", ["sh", "-c", IGNORES_SIGTERM], tmp_path / "log", grace_seconds=0.2)
    pid = pid_in(process.log)
    process.stop()
    assert not alive(pid)
    assert process.exit_code == 128 + signal.SIGKILL


def test_a_program_may_use_its_grace_to_end_in_order(tmp_path: Path) -> None:
    script = "trap 'echo drained; exit 0' TERM; echo $$; while :; do sleep 0.05; done"
    process = Process("program", ["sh", "-c", script], tmp_path / "log", grace_seconds=10)
    pid_in(process.log)
    process.stop()
    assert process.exit_code == 0
    assert process.tail(1) == "drained"


def test_a_signal_reaches_the_program(tmp_path: Path) -> None:
    process = Process(
        "program", ["sh", "-c", "trap 'exit 7' HUP; echo $$; while :; do sleep 0.05; done"], tmp_path / "log"
    )
    pid_in(process.log)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 7
    process.stop()


def test_a_paused_program_does_nothing_until_it_goes_on(tmp_path: Path) -> None:
    script = "echo $$; while :; do echo tick; sleep 0.02; done"
    process = Process("program", ["sh", "-c", script], tmp_path / "log")
    pid_in(process.log)

    def state() -> str:
        return Path(f"/proc/{pid_in(process.log)}/stat").read_text().rsplit(")", 1)[1].split()[0]

    process.pause()
    assert eventually(lambda: state() == "T")
    process.resume()
    assert eventually(lambda: state() != "T")
    process.pause()
    process.stop()
    assert process.exit_code == 128 + signal.SIGKILL


def test_a_program_that_ended_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    process = Process("program", ["sh", "-c", "echo why it ended; exit 3"], tmp_path / "log")
    process.wait(60)
    with pytest.raises(ProcessEndedError, match="exit code 3:\nwhy it ended"):
        process.require_running()
    process.stop()
