"""docs/tutorial.md shows the example files as they are, and what `review` answers about them."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.pages import with_table
from tests.unit.cli.conftest import EXAMPLES
from tests.unit.cli.golden_tables import in_terminal

PAGE = (EXAMPLES.parent / "docs" / "tutorial.md").read_text()
SHOWN = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
GPUS = EXAMPLES / "snapshots" / "gpus.yaml"
FILES = ["pod.yaml", "gang.yaml"]


@pytest.mark.parametrize("name", FILES)
def test_the_page_shows_the_file(name: str) -> None:
    assert (EXAMPLES / "tutorial" / name).read_text() in SHOWN


@pytest.mark.parametrize("name", FILES)
def test_the_page_shows_the_answer(name: str) -> None:
    file = str(EXAMPLES / "tutorial" / name)
    text = in_terminal("review", "-f", file, width=120, cluster=GPUS).strip("\n")
    assert with_table(PAGE, f"review {name}", f"\n```text\n{text}\n```\n") == PAGE


def test_the_kubelets_reserved_memory_adds_up_as_the_kubelet_demands() -> None:
    """Source: kubernetes pkg/kubelet/cm/memorymanager (validateReservedMemory)."""
    kubelet = next(found for found in map(yaml.safe_load, SHOWN[:1]) if found["kind"] == "KubeletConfiguration")
    mebibytes = {"Mi": 1, "Gi": 1024}
    reserved = (
        kubelet["kubeReserved"]["memory"],
        kubelet["systemReserved"]["memory"],
        "100Mi",  # the default of evictionHard, which the page leaves out
    )
    assert "evictionHard" not in kubelet
    of_nodes = [node["limits"]["memory"] for node in kubelet["reservedMemory"]]

    def total(amounts: list[str]) -> int:
        return sum(int(amount[:-2]) * mebibytes[amount[-2:]] for amount in amounts)

    assert total([*reserved]) == total(of_nodes)
