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


def fields_of(record: str, page: Path = DOCS) -> set[str]:
    """The fields that a page, docs/cli.md by default, lists for a record."""
    _, _, section = page.read_text().partition(f"\n### {record}\n")
    lines = re.findall(r"^- (`[^:]*`):", section.partition("\n#")[0], re.MULTILINE)
    return {name for line in lines for name in re.findall(r"`(\w+)`", line)}
