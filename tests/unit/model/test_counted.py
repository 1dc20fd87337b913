"""Numbers in messages agree with their nouns and verbs.

Every formatted text of the service is read from its source. What `counted` builds is rendered with 0, 1 and 2, and a
number before a plural noun that it does not build is a fault.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from webhook.model.wording import counted, plural

ROOT = Path(__file__).parents[3]
SOURCES = [path for folder in ("webhook", "certs") for path in sorted((ROOT / folder).rglob("*.py"))]
NOUNS = (
    "annotations bytes characters clusters containers devices documents domains files gangs groups labels levels lines "
    "members namespaces nodes objects pods racks replicas requests resources segments slices templates "
    "terms topologies workloads zones"
)
PLURAL = re.compile(rf"^ (?:more |other |of the )?(?:NUMA )?({NOUNS.replace(' ', '|')})\b")
ONE, MANY = re.compile(r"^(is|has|was|needs|fits)\b"), re.compile(r"^(are|have|were|need|fit)\b")


def texts() -> Iterator[tuple[str, ast.JoinedStr]]:
    """The formatted texts, with their places."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def is_counted(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "counted"


def nouns_of(call: ast.expr) -> list[str]:
    """The nouns in a call of `counted`."""
    found = call.args[1:] if isinstance(call, ast.Call) else []
    return [str(noun.value) for noun in found if isinstance(noun, ast.Constant)]


def said_before(node: ast.JoinedStr, value: ast.expr) -> str:
    """The text right before a value."""
    index = node.values.index(value)
    before = node.values[index - 1] if index else None
    return str(before.value) if isinstance(before, ast.Constant) else ""


def is_limit(node: ast.expr) -> bool:
    """Whether it is a constant of a module, which is never 1, or a field that is formatted otherwise."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lstrip("_").isupper()


@pytest.mark.parametrize(("count", "pods"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_a_number_and_its_noun(count: int, pods: str) -> None:
    assert counted(count, "pod") == pods
    assert counted(count, "node fits", "nodes fit") == f"{count} {'node fits' if count == 1 else 'nodes fit'}"
    assert counted(count, "pod", number="many") == f"many {pods[2:]}"


def test_plurals() -> None:
    assert [plural(noun) for noun in ("rack", "switch", "box")] == ["racks", "switches", "boxes"]


def test_every_number_before_a_noun_is_built_by_the_function_that_knows_singular_and_plural() -> None:
    faults = []
    for place, node in texts():
        for value, after in zip(node.values, node.values[1:], strict=False):
            is_plural = isinstance(after, ast.Constant) and PLURAL.match(str(after.value))
            if is_plural and isinstance(value, ast.FormattedValue) and not is_limit(value.value):
                faults.append(f"{place}: {ast.unparse(node)}")
    assert faults == []


@pytest.mark.parametrize("count", [0, 1, 2])
def test_each_message_with_a_number_reads_well(count: int) -> None:
    seen = 0
    for place, node in texts():
        for value, after in zip(node.values, [*node.values[1:], None], strict=True):
            if isinstance(value, ast.FormattedValue) and is_counted(value.value):
                words = nouns_of(value.value)
                if not words:
                    continue  # the noun is the name of a level
                seen += 1
                said = counted(count, *words)
                rest = str(after.value) if isinstance(after, ast.Constant) else ""
                if said_before(node, value).endswith("of "):
                    continue  # the verb's subject stands before: `none of 2 nodes fits`
                verb = " ".join((*said.split()[2:], rest)).strip() if rest.startswith(" ") or not rest else ""
                assert not (ONE if count != 1 else MANY).match(verb), (place, said, rest)
    assert seen > 40
