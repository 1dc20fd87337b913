"""What commands print in a terminal of 80 and of 140 columns about examples/snapshots/busy.yaml.

`python -m tests.unit.cli.golden_tables` writes the files anew: read what changes.
"""

import re
from pathlib import Path

from typer.testing import CliRunner

from tests.unit.cli.conftest import EXAMPLES
from webhook.cli.app import app

FOLDER = Path(__file__).parent / "golden"
BUSY = EXAMPLES / "snapshots" / "busy.yaml"
WIDTHS = (80, 140)
CALLS = {
    "tree": ("tree",),
    "nodes": ("nodes",),
    "node": ("nodes", "gpu-21"),
    "devices": ("nodes", "dra-51"),
    "waiting": ("waiting",),
    "defrag": ("defrag",),
    "audit": ("audit",),
    "explain-pod": ("explain", "pod/olap-0", "-n", "analytics"),
    "explain-job": ("explain", "job/train", "-n", "research"),
    "review-pod": ("review", "-f", str(EXAMPLES / "pod.yaml")),
    "review-gang": ("review", "-f", str(EXAMPLES / "gang.yaml")),
}


def file_of(name: str, width: int) -> Path:
    return FOLDER / f"{name}-{width}.txt"


def printed(name: str, width: int) -> str:
    """What a call prints about the busy cluster in a terminal."""
    return in_terminal(*CALLS[name], width=width, cluster=BUSY)


def in_terminal(*arguments: str, width: int, cluster: Path) -> str:
    """What a command prints in a terminal, without colors and spaces at the ends of lines."""
    environment = {"FORCE_COLOR": "1", "COLUMNS": str(width), "TERM": "xterm", "KUBECONFIG": "/no/kubeconfig"}
    result = CliRunner().invoke(app, [*arguments, "--cluster", str(cluster)], env=environment)
    assert result.exit_code in {0, 1}, result.output
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in CALLS:
        for width in WIDTHS:
            file_of(name, width).write_text(printed(name, width))


if __name__ == "__main__":
    _write()
