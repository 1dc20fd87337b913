"""Files into `review` and `explain`: one document or many, YAML or JSON, objects or snapshots.

1. The command ends with 0, 1 or 2, and never with a traceback.
2. It prints an error message if and only if it ends with 2.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml
from typer.testing import CliRunner, Result

from tests.fuzz import corpus, oracle
from tests.fuzz.mutate import TEXTS, mutated
from tests.fuzz.outcome import BrokenError
from webhook.cli.app import app


class Files(NamedTuple):
    """The input files of a run."""

    command: str
    objects: str
    node_arrays: str


class CLI:
    """Each input is a run."""

    name = "cli"

    def __init__(self) -> None:
        self._objects = [*corpus.pods(), *corpus.workloads()]
        self._node_arrays = [
            *corpus.nodes(),
            *corpus.node_topologies()[: len(corpus.FREE)],
            *corpus.topologies().values(),
            *corpus.pods(),
        ]

    def draw(self, random: Random) -> Files:
        """A few objects in one file, and the cluster in another."""
        objects = random.sample(self._objects, random.choice((1, 1, 2, 4)))
        node_arrays: list[Any] = list(self._node_arrays)
        if random.random() < 0.6:
            objects = [mutated(random, one, self._node_arrays) for one in objects]
        else:
            number = random.randrange(len(node_arrays))
            node_arrays[number] = mutated(random, node_arrays[number], self._objects)
        command = random.choice(
            ("review -o json", "review -o table", "review -o yaml", "review --all-nodes", "explain")
        )
        return Files(command, _written(random, objects), _written(random, node_arrays))

    async def check(self, drawn: Files) -> None:
        """Run the command."""
        outcome = _run(drawn)
        if outcome is None:
            return
        if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
            raise outcome.exception
        if outcome.exit_code not in {0, 1, 2}:
            raise BrokenError(f"exit code {outcome.exit_code}")
        if (outcome.exit_code == 2) != ("error: " in outcome.stderr):
            raise BrokenError(f"exit code {outcome.exit_code} with {outcome.stderr[:200]!r}")

    def may_fail(self, drawn: Any) -> bool:
        """See Part."""
        del drawn
        return False

    def smaller(self, drawn: Files) -> Iterator[Files]:
        """Fewer documents, or smaller ones."""
        for field in ("objects", "snapshot"):
            try:
                documents = list(yaml.safe_load_all(getattr(drawn, field)))
            except yaml.YAMLError:
                continue
            for less in oracle.without_parts({"all": documents}):
                if "all" in less:
                    yield drawn._replace(**{field: "\n---\n".join(map(_json, less["all"]))})

    async def stop(self) -> None:
        """Nothing to close."""


def _run(drawn: Files) -> Result | None:
    """Run the command once. None if the text cannot be written to a file."""
    with TemporaryDirectory() as folder:
        file, cluster = Path(folder, "objects.yaml"), Path(folder, "cluster.yaml")
        try:
            file.write_text(drawn.objects)
            cluster.write_text(drawn.node_arrays)
        except UnicodeEncodeError:
            return None
        arguments = [*drawn.command.split(), "-f", str(file), "--cluster", str(cluster)]
        return CliRunner().invoke(app, arguments, env={"KUBECONFIG": None})


def _json(value: Any) -> str:
    return json.dumps(value, default=str)


def _written(random: Random, objects: list[Any]) -> str:
    form = random.choice(("yaml", "json", "list", "lines"))
    try:
        if form == "yaml":
            text = yaml.safe_dump_all(objects, allow_unicode=random.random() < 0.5)
        elif form == "list":
            text = _json({"apiVersion": "v1", "kind": "List", "items": objects})
        else:
            text = ("\n---\n" if form == "json" else "\n").join(map(_json, objects))
    except (RecursionError, yaml.YAMLError):
        text = "[" * 2000
    if random.random() < 0.2:  # a slip of the finger
        at = random.randrange(len(text) + 1)
        text = text[:at] + str(random.choice((*TEXTS, *"[]{}:-&*!|>%@`\t#"))) + text[at + random.randrange(3) :]
    return text
