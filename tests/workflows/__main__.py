"""python -m tests.workflows: lint .github/workflows with actionlint. 0: no findings; 1: findings, or no linter."""

import sys
from pathlib import Path

from tests.cluster.build import BuildFailedError
from tests.cluster.up import tell
from tests.workflows.linter import lint

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"


def main() -> int:
    """Lint the workflows and print the findings."""
    try:
        done = lint(sorted(WORKFLOWS.glob("*.yml")), tell)
    except BuildFailedError as error:
        tell(f"error: {error}")
        return 1
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
