"""A program of the test control plane: it has its own log file, and ends with its starter.

Life cycle: `Process(...)` starts it -> `running` -> `stop()`. Without `stop()`, even when the starter is killed, the
supervisor that stands between the two ends it (see supervise.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUPERVISOR = Path(__file__).with_name("supervise.py")
SIGNAL_SECONDS = 60.0


class ProcessEndedError(RuntimeError):
    """A program that should be running has ended. The message holds the end of its log."""


class Process:
    """One running program. `grace_seconds` is how long `stop` waits between SIGTERM and SIGKILL; 0 kills at once."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        grace_seconds: float = 0.0,
    ) -> None:
        self.name = name
        self.log = log
        self._grace_seconds = grace_seconds
        self._supervised = [str(part) for part in (sys.executable, "-I", "-S", SUPERVISOR, grace_seconds, *argv)]
        self._env = env
        self._cwd = cwd
        self._supervisor = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as output:
            return subprocess.Popen(
                self._supervised,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,  # Ctrl-C must reach only this process: it ends the programs in order
            )

    def start_again(self) -> None:
        """Start the program again, with the arguments it had first. It must have ended."""
        self._supervisor = self._start()

    @property
    def running(self) -> bool:
        return self._supervisor.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The program's exit code, 128 + n when signal n ended it, None while it runs."""
        return self._supervisor.poll()

    @property
    def pid(self) -> int:
        """The process id of the program, not of its supervisor."""
        supervisor = self._supervisor.pid
        return int(Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()[0])

    @property
    def cpu_seconds(self) -> float:
        """CPU time that the program, not its supervisor, has used so far."""
        # utime and stime are the 14th and 15th field; those from the third on follow the name in parentheses.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pause(self) -> None:
        """Stop the program as SIGSTOP does. Returns when it has stopped."""
        self._supervisor.send_signal(signal.SIGUSR1)
        self._wait_until(stopped=True)

    def resume(self) -> None:
        """Continue a paused program. Returns when it runs."""
        self._supervisor.send_signal(signal.SIGUSR2)
        self._wait_until(stopped=False)

    def _wait_until(self, *, stopped: bool) -> None:
        """Wait, because of two pending signals the supervisor takes the lower number first, not the earlier one."""
        supervisor = self._supervisor.pid
        deadline = time.monotonic() + SIGNAL_SECONDS
        while time.monotonic() < deadline:
            self.require_running()
            with contextlib.suppress(FileNotFoundError, ValueError):  # it has just ended
                program, *_ = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
                _, _, rest = Path(f"/proc/{program}/stat").read_text().rpartition(")")
                if (rest.split()[0] == "T") is stopped:
                    return
            time.sleep(0.01)
        raise ProcessEndedError(f"{self.name} does not heed the signal to stop or to go on:\n{self.tail()}")

    def send_signal(self, number: signal.Signals) -> None:
        """Pass SIGTERM, SIGINT or SIGHUP to the program."""
        self._supervisor.send_signal(number)

    def wait(self, timeout: float) -> int:
        """Wait for the program to end by itself; its exit code."""
        return self._supervisor.wait(timeout)

    def stop(self) -> None:
        """End the program and wait for it. Safe to call twice."""
        self.ask_to_stop()
        try:
            self._supervisor.wait(self._grace_seconds + 10)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the program without a chance to clean up."""
        self._supervisor.kill()  # the program follows by PR_SET_PDEATHSIG
        self._supervisor.wait()
        self.ask_to_stop()  # closes the pipe

    def ask_to_stop(self) -> None:
        """Ask the program to end, without waiting, so that several can end in parallel."""
        if self._supervisor.stdin is not None:
            self._supervisor.stdin.close()

    def require_running(self) -> None:
        if not self.running:
            raise ProcessEndedError(f"{self.name} ended with exit code {self.exit_code}:\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        """The last lines of the log; at most 64 KiB are read."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 65536))
            return b"\n".join(log.read().splitlines()[-lines:]).decode(errors="replace")
