"""The processes of a control plane, and a pod to place on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def pod(name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def programs_of(folder: str) -> list[str]:
    """The command lines of all live processes that name a folder."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it ended meanwhile
            continue
        if folder in line and int(process.name) != os.getpid():
            lines.append(line)
    return lines
