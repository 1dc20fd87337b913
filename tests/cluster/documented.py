"""Commands as a page of the docs shows them, and a shell that runs them as the administrator."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.webhook_process import PROGRAM

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]


def commands(page: str, title: str, language: str = "console") -> list[str]:
    """What a reader types from the blocks of a section: lines of `console`, or whole blocks of `bash`."""
    section = re.split(r"\n##", (ROOT / page).read_text().partition(f"{title}\n")[2])[0]
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert blocks, f"{page} has no block of {language} under {title!r}"
    if language == "bash":
        return blocks
    return [line.removeprefix("$ ") for block in blocks for line in block.replace("\\\n", "").splitlines()]


def type_in(plane: ControlPlane, *lines: str) -> None:
    """Run the lines in a shell that has kubectl, helm and our program, in the checkout."""
    programs = {str(plane.assets[name].parent): None for name in ("kubectl", "helm")}
    folders = [*programs, str(PROGRAM.parent), os.environ["PATH"]]
    environment = {"PATH": ":".join(folders), "KUBECONFIG": str(plane.kubeconfig), "HOME": str(plane.folder)}
    subprocess.run(["bash", "-euo", "pipefail", "-c", "\n".join(lines)], env=environment, cwd=ROOT, check=True)
