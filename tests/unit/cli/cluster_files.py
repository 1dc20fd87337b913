"""Snapshots for the commands that show a cluster, and what docs/cli.md says about their JSON."""

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[3] / "docs" / "cli.md"


def written(folder: Path, *objects: dict[str, Any]) -> Path:
    file = folder / "cluster.json"
    file.write_text("\n".join(map(json.dumps, objects)))
    return file


def fields_of(record: str) -> set[str]:
    """The fields that docs/cli.md lists for a record."""
    _, _, section = DOCS.read_text().partition(f"\n### {record}\n")
    rows = re.findall(r"^\| (`[^|]*`) \|", section.partition("\n#")[0], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}
