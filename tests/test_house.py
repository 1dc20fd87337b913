"""Where tests live: what several of them use stands in a module beside them, never in a `test_*` file."""

import ast
from pathlib import Path

HERE = Path(__file__).parent


def imported(path: Path) -> list[str]:
    """The modules that a file imports, by their whole names."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module or ''}.{alias.name}" for alias in node.names]
    return found


def test_nothing_imports_a_test_file() -> None:
    files = [*HERE.rglob("*.py")]
    assert files
    wrong = [
        f"{path.relative_to(HERE)} imports {name}: move what both need to a module beside them, or to tests/builders"
        for path in files
        for name in imported(path)
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split(".")[1:-1])
    ]
    assert wrong == []
