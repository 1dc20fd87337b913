"""Where code and tests live: CONTRIBUTING.md names what exists, and nothing imports from a `test_*` file."""

import ast
import re
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


def test_the_map_names_only_files_and_folders_that_exist() -> None:
    root = HERE.parent
    rooms = [root / name for name in ("webhook", "certs", "tests", "docs", "charts")]
    paths = [*rooms, *(path for room in rooms for path in room.rglob("*"))]
    here = {f"/{path.relative_to(root)}{'/' * path.is_dir()}" for path in paths}
    text = (root / "CONTRIBUTING.md").read_text()
    named = {name for name in re.findall(r"`([\w/.-]+(?:\.py|/))`", text) if not name.startswith(".")}
    assert len(named) > 50
    assert [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in here)] == []
