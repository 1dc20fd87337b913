"""What must be on the host after a run as it was before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.hardware import write_hardware
from tests.cluster.kubelets import SimulatedMachine

if TYPE_CHECKING:
    from collections.abc import Callable


def host_state(scratch: Path) -> Callable[[], tuple[str, list[str]]]:
    """A function that reads the host's mounts, and the tunables that a kubelet would write. scratch: a folder."""
    hidden = write_hardware(SimulatedMachine("n"), scratch)
    tunables = [Path(place) for place in hidden if place.startswith("/proc/sys/")]

    def read() -> tuple[str, list[str]]:
        # root alone may read the limits of keys
        readable = [file for file in tunables if os.access(file, os.R_OK)]
        return Path("/proc/self/mountinfo").read_text(), [file.read_text() for file in readable]

    return read


def running_kubelets() -> list[str]:
    """The command lines of all real kubelets, and of what starts one."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it ended meanwhile
            continue
        if "--hostname-override=" in line and "supervise.py" not in line:
            lines.append(line)
    return lines
