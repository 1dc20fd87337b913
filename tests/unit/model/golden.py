"""Golden files: inputs, and the results of real Kubernetes components for them."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parents[2] / "conformance" / "golden"


def cases(name: str) -> Iterator[dict[str, Any]]:
    """The cases of one file."""
    with gzip.open(DIRECTORY / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
