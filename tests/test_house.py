"""Where tests live, and what makes their objects.

What several tests use stands in a module beside them, never in a `test_*` file. Pods, nodes and topologies come from
`tests/builders`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

from tests.capabilities import HEADER, capabilities, selected

HERE = Path(__file__).parent
WEBHOOK = HERE.parent / "webhook"

BUILT = ("unit", "property")
SPELLED_OUT = {"containers", "zones", "allocatable", "nodeLabel"}
"""Fields that mark a Pod, an NRT, a Node and a Topology."""
EVERY_FORM = {"unit/formats/test_nrt.py", "unit/kube/test_informer.py"}
"""Read NRTs in all forms in which exporters publish them, and in the order of fields in which the API server does."""

HOOKS = {"sni_callback", "refresh_api_key_hook"}
"""Attributes of `ssl` and of the Kubernetes client that are made to be assigned to."""


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


def handed_in_later(source: str, functions: set[str]) -> Iterator[str]:
    """The callables that are assigned to an attribute of another object than `self`. functions: names of methods."""
    here = {each.name for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)}
    for each in ast.walk(ast.parse(source)):
        if not isinstance(each, ast.Assign) or not isinstance(target := each.targets[0], ast.Attribute):
            continue
        match each.value:
            case ast.Attribute(attr=name):
                is_callable = name in functions
            case ast.Name(id=name):
                is_callable = name in here
            case other:
                is_callable = isinstance(other, ast.Lambda)
        if is_callable and not (isinstance(target.value, ast.Name) and target.value.id == "self"):
            yield f"line {each.lineno}: {ast.unparse(each)}"


def functions_of(source: str) -> Iterator[str]:
    """The functions and methods of a file, without properties."""
    for each in ast.walk(ast.parse(source)):
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and not any(
            ast.unparse(one) in {"property", "cached_property"} for one in each.decorator_list
        ):
            yield each.name


def test_what_an_object_calls_it_gets_when_it_is_built() -> None:
    sources = {path: path.read_text() for path in WEBHOOK.rglob("*.py")}
    functions = {name for source in sources.values() for name in functions_of(source)}
    assert list(handed_in_later("a.b.changed = self._changed", {"_changed"}))
    assert list(handed_in_later("a.is_busy = lambda: False", set()))
    wrong = [
        f"{path.name}, {found}: give it to the constructor, or subscribe to a Signal"
        for path, source in sources.items()
        for found in handed_in_later(source, functions)
        if not any(hook in found for hook in HOOKS)
    ]
    assert wrong == []


def keys_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[object]:
    """The keys of all dictionaries that a function writes out."""
    dicts = (each for each in ast.walk(function) if isinstance(each, ast.Dict))
    return {key.value for each in dicts for key in each.keys if isinstance(key, ast.Constant)}


def private_builders(path: Path) -> Iterator[str]:
    """The helpers in a file that write out a whole object. A literal in a test itself is what that test is about."""
    for each in ast.walk(ast.parse(path.read_text())):
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and not each.name.startswith("test_"):
            keys = keys_of(each)
            if "metadata" in keys and keys & SPELLED_OUT:
                yield each.name


def test_objects_come_from_the_builders() -> None:
    files = [path for folder in BUILT for path in (HERE / folder).rglob("*.py")]
    assert files
    wrong = [
        f"{path.relative_to(HERE)}: {name}() writes out an object: use tests/builders"
        for path in files
        if str(path.relative_to(HERE)) not in EVERY_FORM
        for name in private_builders(path)
    ]
    assert wrong == []


def test_every_capability_is_proved_by_tests_that_exist() -> None:
    wrong = []
    for test in selected():
        file, _, case = test.partition("::")
        path = HERE.parent / file
        functions = {each.name for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.FunctionDef)}
        if case and case.partition("[")[0] not in functions:
            wrong.append(test)
    assert wrong == []


def test_a_capability_without_a_test_is_an_error() -> None:
    table = f"{HEADER}\n|---|---|\n| a | `integration/test_a.py`, `test_b.py::test_b[x y]` |\n"
    assert capabilities(f"{table}\ntext\n") == {"a": ["tests/integration/test_a.py", "tests/test_b.py::test_b[x y]"]}
    with pytest.raises(ValueError, match="no test proves: c"):
        capabilities(f"{table}| c | someday |\n")
    with pytest.raises(ValueError, match="no table"):
        capabilities("text")


# A road's heading, the module from which it starts, and the most files that its reader should have to open.
ROADS = [
    ("A pod at CREATE", "webhook.app.webhooks", 40),
    ("A gated pod", "webhook.controllers.placement.controller", 25),
    ("A Binding", "webhook.admission.binding.guard", 12),
    ("An allocation of devices", "webhook.admission.claim", 8),
]
ABOVE = ("app", "server", "kube")


def road(heading: str) -> list[str]:
    """The files that CONTRIBUTING names on a road, below webhook/; a bare name is in the folder of the one before."""
    text = (HERE.parent / "CONTRIBUTING.md").read_text()
    steps = re.split(r"\nAn? |\n## ", re.split(rf"\n{heading}.*:\n", text)[1])[0]
    found, folder = [], ""
    for name in re.findall(r"`([\w/]+\.py)`", steps):
        folder, _, file = name.rpartition("/") if "/" in name else (folder, "", name)
        found.append(f"{folder}/{file}" if (WEBHOOK / folder / file).exists() else file)
    return found


@pytest.mark.parametrize(("heading", "start", "most"), ROADS, ids=[heading for heading, *_ in ROADS])
def test_the_roads_through_the_code_are_short_and_lead_where_they_say(heading: str, start: str, most: int) -> None:
    files = road(heading)
    assert 5 < len({*files}) <= most
    assert [name for name in files if not (WEBHOOK / name).exists()] == []
    taken = {start, *grimp.build_graph("webhook").find_upstream_modules(start)}
    below = {name for name in files if not name.startswith(ABOVE)}
    assert [name for name in below if f"webhook.{name.removesuffix('.py').replace('/', '.')}" not in taken] == []
