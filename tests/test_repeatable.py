"""`make test` is deterministic: no test uses a generator without a seed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
# The one place for a seed that nobody has named.
DRAWS = TESTS / "seeds.py"
FILES = sorted(set(TESTS.rglob("*.py")) - {DRAWS})

_OF_THE_SYSTEM = {"SystemRandom", "uuid1", "uuid4", "urandom", "use_true_random"}
_GENERATORS = {"Random", "default_rng", "SeedSequence"}


def unseeded(source: str) -> Iterator[str]:
    """Places in a module that draw other values in the next run."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name) | ast.keyword(arg=str(name)):
                found = name in _OF_THE_SYSTEM
            case _:
                found = False
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[], keywords=[]):
                found = found or name in _GENERATORS
        match node:
            # The functions of the module share one generator; so do numpy's.
            case ast.Attribute(value=ast.Name(id="random"), attr=name) if name.islower():
                found = found or _imports_random(source)
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"), attr=name):
                found = found or name not in {"default_rng", "Generator", "SeedSequence"}
            case ast.ImportFrom(module="random", names=names):
                found = found or any(each.name.islower() for each in names)
        if found:
            yield f"line {getattr(node, 'lineno', '?')}: {ast.unparse(node)}"


def _imports_random(source: str) -> bool:
    return any(
        isinstance(node, ast.Import) and any(each.name == "random" and not each.asname for each in node.names)
        for node in ast.walk(ast.parse(source))
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_nothing_is_drawn_without_a_seed(path: Path) -> None:
    assert list(unseeded(path.read_text())) == []


@pytest.mark.parametrize("path", [path for path in FILES if path.name.startswith("test_")], ids=lambda path: path.name)
def test_no_test_asks_for_a_fresh_seed(path: Path) -> None:
    names = {name.id for name in ast.walk(ast.parse(path.read_text())) if isinstance(name, ast.Name)}
    assert "fresh_seed" not in names


@pytest.mark.parametrize(
    "source",
    [
        "from random import Random\nRandom().random()",
        "import random\nrandom.Random()",
        "import random\nrandom.shuffle(pods)",
        "from random import shuffle",
        "import random\nrandom.SystemRandom().randrange(5)",
        "import numpy as np\nnp.random.default_rng()",
        "import numpy as np\nnp.random.rand(3)",
        "from uuid import uuid4",
        "import uuid\nuuid.uuid4()",
        "st.randoms(use_true_random=True)",
    ],
)
def test_what_is_refused(source: str) -> None:
    assert list(unseeded(source))


@pytest.mark.parametrize(
    "source",
    [
        "from random import Random\nRandom(1).random()",
        "import random\nrandom.Random(seed)",
        "import numpy as np\nnp.random.default_rng(5).integers(3)",
        "def test(random): random.shuffle(pods)",
        "st.randoms()",
    ],
)
def test_what_is_accepted(source: str) -> None:
    assert list(unseeded(source)) == []


def test_properties_draw_the_same_in_every_run() -> None:
    assert settings.default is not None
    assert settings.default.derandomize
    assert settings.default.database is None
