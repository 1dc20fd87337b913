"""What must be on the host after a run as it was before."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.cluster.hardware import write_hardware
from tests.cluster.kubelets import SimulatedMachine

if TYPE_CHECKING:
    from collections.abc import Callable

_MARK: Final = "TOPOLOGY_WEBHOOK_TEST_RUN"


def host_state(scratch: Path) -> Callable[[], tuple[str, list[str]]]:
    """A function that reads the host's mounts, and the tunables that a kubelet would write. scratch: a folder."""
    hidden = write_hardware(SimulatedMachine("n"), scratch)
    tunables = [Path(place) for place in hidden if place.startswith("/proc/sys/")]

    def read() -> tuple[str, list[str]]:
        # root alone may read the limits of keys
        readable = [file for file in tunables if os.access(file, os.R_OK)]
        return Path("/proc/self/mountinfo").read_text(), [file.read_text() for file in readable]

    return read


def marked(run: Path) -> dict[str, str]:
    """The environment by which the programs of a run are known beside those of other runs. run: a folder of its own."""
    return {**os.environ, _MARK: str(run)}


def running(run: Path) -> list[str]:
    """The command lines of a run's programs, without their supervisors."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or is none of ours
            if f"{_MARK}={run}\0".encode() in (process / "environ").read_bytes():
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if "supervise.py" not in line:
                    lines.append(line)
    return lines


def running_kubelets(run: Path) -> list[str]:
    """The command lines of a run's real kubelets, and of what starts one."""
    return [line for line in running(run) if "--hostname-override=" in line]
