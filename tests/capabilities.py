"""python -m tests.capabilities: what `make test` runs on the real control plane, as arguments of pytest.

The table of CONTRIBUTING.md is the list: a row for each capability, with the tests that prove it. A test on the control
plane that is in no row runs in `make test-long` only, so that `make test` does not grow unnoticed.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
HEADER = "| capability | proved by |"


def capabilities(page: str) -> dict[str, list[str]]:
    """The tests of each capability, as `tests/file.py` or `tests/file.py::test[case]`, in the order of the table.

    Raises `ValueError` for a page without the table, and for a row without a test.
    """
    _, found, below = page.partition(f"{HEADER}\n|---|---|\n")
    rows = re.match(r"(?:\|.*\n)*", below)
    if not found or rows is None:
        raise ValueError(f"there is no table {HEADER}")
    proofs = {}
    for row in rows[0].splitlines():
        _, capability, proof, _ = row.split("|")
        proofs[capability.strip()] = [f"tests/{test}" for test in re.findall(r"`([\w/]+\.py(?:::[^`]+)?)`", proof)]
        if not proofs[capability.strip()]:
            raise ValueError(f"no test proves: {capability.strip()}")
    return proofs


def selected() -> list[str]:
    """All tests of the table, each once."""
    return list(dict.fromkeys(test for tests in capabilities(PAGE.read_text()).values() for test in tests))


if __name__ == "__main__":
    print("\n".join(selected()))  # noqa: T201 - the answer
