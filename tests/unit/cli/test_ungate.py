"""`topology-webhook ungate`: its flags, and the patch of one pod. tests/integration/test_ungate.py runs it."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.builders.pods import created, gated
from webhook.cli.app import app
from webhook.cli.ungater import TEXT, Ungater, ungating
from webhook.formats.patches.json_patch import apply
from webhook.kube.api_errors import APIError
from webhook.model.names import PLACEMENT, PLACEMENT_GATE

OURS, OTHER = {"name": PLACEMENT_GATE}, {"name": "example.com/quota"}


def run(*arguments: object) -> Result:
    environment = dict.fromkeys((name for name in os.environ if name.startswith("KUBE")), None)
    return CliRunner().invoke(app, ["ungate", *map(str, arguments)], env=environment)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which pods? Use --all for all namespaces, or --namespace NS for one"),
        (["--dry-run"], "which pods? Use --all"),
        (["--namespace", "Team/A"], "--namespace: 'Team/A' is not a name: use lower-case letters"),
        (["--all", "--remove-webhooks", "a/../b"], "--remove-webhooks: 'a/../b' is not a name"),
        (["--all", "--namespace", "a", "--remove-webhooks", "b"], "--remove-webhooks and --namespace exclude each"),
    ],
)
def test_wrong_flags_are_named_with_what_to_write(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {message}")


def test_without_a_cluster_it_says_where_it_looked(tmp_path: Path) -> None:
    result = run("--all", "--kubeconfig", tmp_path / "absent")
    assert result.exit_code == 2
    assert "There is no kubeconfig at" in result.stderr


def test_the_patch_removes_our_gate_however_often_it_is_there_and_keeps_others() -> None:
    raw = gated(schedulingGates=[OURS, OTHER, OURS])
    patched = apply(raw, ungating(raw, TEXT))
    assert patched["spec"]["schedulingGates"] == [OTHER]
    assert patched["metadata"]["annotations"] == {**raw["metadata"]["annotations"], PLACEMENT: TEXT}
    assert ungating(raw, "")[-1]["path"] == "/spec/schedulingGates"


def test_the_patch_holds_for_the_version_that_it_was_made_from() -> None:
    first, *_ = ungating(created(schedulingGates=[OURS]), TEXT)
    assert first == {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}


@pytest.mark.parametrize("annotations", [None, {}])
def test_a_pod_without_annotations_gets_the_text_too(annotations: dict[str, str] | None) -> None:
    raw = gated()
    raw["metadata"]["annotations"] = annotations
    assert apply(raw, ungating(raw, TEXT))["metadata"]["annotations"] == {PLACEMENT: TEXT}


class SlowAPI:
    """An API server that rejects each patch, and does not answer a second list."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.is_asked_again = asyncio.Event()
        self._lists = 0
        self._pods = pods

    async def get(self, *_: object) -> dict[str, Any]:
        self._lists += 1
        if self._lists > 1:
            self.is_asked_again.set()
            await asyncio.Event().wait()
        return {"items": list(self._pods)}

    async def write(self, *_: object) -> None:
        raise APIError(403, "Forbidden", "a policy of the cluster")


async def test_a_pod_that_failed_is_named_though_the_time_is_over_in_the_next_pass() -> None:
    api: Any = SlowAPI(gated(name="p", uid="u"))
    ungater = Ungater(api)
    task = asyncio.create_task(ungater.ungate(60.0, until_none=False))
    await api.is_asked_again.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ungater.tally.failed == {"default/p": "403 Forbidden: a policy of the cluster"}
    assert not ungater.tally.complete
