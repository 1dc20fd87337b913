"""`topology-webhook tree`: the same numbers for people and for programs."""

import io
import re
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from tests.builders.nodes import node
from tests.builders.pods import bound
from tests.builders.topologies import topology
from tests.unit.cli.cluster_files import DOCS, fields_of, written
from tests.unit.cli.conftest import Printed, run_command
from tests.unit.views.racks import GPU, RACK, ZONE, cluster
from webhook.cli.commands.tree import print_trees
from webhook.views.domains import DomainView, FreeAmounts, TopologyView


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return written(tmp_path, *cluster())


def tree(snapshot: Path, *arguments: object) -> Printed:
    return run_command("tree", *arguments, cluster=snapshot)


def test_the_table_is_that_of_the_docs(snapshot: Path) -> None:
    printed = tree(snapshot, "--depth", "rack", "--resource", f"cpu,{GPU}")
    assert (printed.code, printed.stderr) == (0, "")
    (shown,) = re.findall(r"```\n(network .*?)```", DOCS.read_text(), re.DOTALL)
    assert printed.stdout == shown


def test_json_and_yaml_are_the_same_value(snapshot: Path) -> None:
    as_json = tree(snapshot, "-o", "json").json
    assert yaml.safe_load(tree(snapshot, "-o", "yaml").stdout) == as_json


def test_the_json_has_the_documented_fields_and_types(snapshot: Path) -> None:
    answer = tree(snapshot, "-o", "json").json
    assert set(answer) == {"topologies"}
    (topology,) = answer["topologies"]
    root = topology["root"]
    assert set(topology) == fields_of("TopologyView")
    assert set(root) == fields_of("DomainView")
    assert {frozenset(each) for each in root["amounts"]} == {frozenset(fields_of("FreeAmounts"))}
    assert {frozenset(each) for each in root["gangs"]} == {frozenset(fields_of("GangInDomain"))}
    assert topology | {"root": None} == {
        "name": "network",
        "apiGroup": "kai.scheduler",
        "levels": [ZONE, RACK],
        "depth": "node",
        "domainsBelow": 0,
        "root": None,
    }
    assert root["amounts"][0] == {
        "resource": "cpu",
        "free": 89_500,
        "total": 160_000,
        "largest": 16_000,
        "used": 38_500,
    }
    assert root["gangs"][0] == {"namespace": "default", "name": "train", "pods": 3, "of": 3}
    assert [each["value"] for each in root["domains"]] == ["zone-a", "zone-b", None]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--depth", "racks"), (f'--depth: "racks" is no level of topology network. Its levels are, from coarse to '
                               f"fine: {ZONE}, {RACK}. Did you mean rack? Or write node, or a number from 0 to 3.")),
        (("--topology", "netwrk"), ("--topology: 'netwrk' is no Topology of the cluster. There are: network. "
                                   "Did you mean network?")),
        (("--resource", "nvidia.com/gpus"), ("--resource: no node offers 'nvidia.com/gpus'. Nodes offer: cpu, memory, "
                                            "nvidia.com/gpu. Did you mean nvidia.com/gpu?")),
        (("--resource", " , "), "--resource: ' , ' names no resource. Nodes offer: cpu, memory, nvidia.com/gpu."),
        (("--kubeconfig", "x"), "--cluster and --kubeconfig exclude each other: give a snapshot or a live cluster"),
    ],
)  # fmt: skip
def test_a_wrong_flag_is_named_with_what_is_allowed(snapshot: Path, arguments: tuple[str, ...], message: str) -> None:
    outcome = tree(snapshot, *arguments)
    assert (outcome.code, outcome.stderr, outcome.stdout) == (2, f"error: {message}\n", "")


def test_without_a_cluster_the_kubeconfig_is_named() -> None:
    outcome = run_command("tree")
    assert outcome.code == 2
    assert outcome.stderr == (
        "error: There is no kubeconfig at /no/kubeconfig. Name one with --kubeconfig. "
        "Or give a snapshot with --cluster.\n"
    )


def test_of_several_topologies_the_depth_applies_where_it_is_a_level(tmp_path: Path) -> None:
    other = topology(name="blocks", labels=("example.com/block",))
    file = written(tmp_path, *cluster(), other)
    found = tree(file, "--depth", "rack", "-o", "json").json["topologies"]
    assert [(each["name"], each["depth"]) for each in found] == [("blocks", "node"), ("network", RACK)]
    (only,) = tree(file, "--topology", "blocks", "-o", "json").json["topologies"]
    assert only["name"] == "blocks"


def test_a_level_that_is_too_long_to_read_is_counted(tmp_path: Path) -> None:
    racks = [node(name=f"n{number}", labels={RACK: f"r{number}"}) for number in range(101)]
    file = written(tmp_path, topology(labels=(RACK,)), *racks)
    lines = tree(file).stdout.splitlines()
    assert len(lines) == 4  # title, header, the cluster, and the count
    assert lines[-1] == f"101 domains of level {RACK} are not shown: --depth {RACK}"
    assert len(tree(file, "--depth", RACK).stdout.splitlines()) == 2 + 1 + 101 + 1


def test_what_tenants_write_cannot_control_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x9b31m\u202e\r\n" + "x" * 100_000
    named = bound(name="p", node="n0", cpu=1, group=evil, numa=None)
    file = written(
        tmp_path, node(name="n0\x1b[2J", labels={RACK: evil}), node(name="n0"), topology(labels=(RACK,)), named
    )
    printed = tree(file).stdout
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert max(map(len, printed.splitlines())) < 300
    assert "\\x1b]0;owned\\x07" in printed


def terminal(*, utf8: bool) -> Console:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8" if utf8 else "ascii", newline="\n")
    return Console(file=stream, force_terminal=True, color_system="standard", width=200, highlight=False)


def painted(view: TopologyView, console: Console) -> str:
    print_trees([view], console)
    stream = console.file
    stream.flush()
    return stream.buffer.getvalue().decode()  # type: ignore[attr-defined,no-any-return] # a TextIOWrapper


def rack(value: str, free: int) -> DomainView:
    return DomainView(RACK, value, 1, 1, (FreeAmounts("cpu", free, 8_000, free, 8_000 - free),), (), ())


VIEW = TopologyView(
    "network", "kai.scheduler", (RACK,), RACK, 2,
    DomainView(
        None, None, 2, 2,
        (FreeAmounts("cpu", 1_000, 16_000, None, 15_000),), (), (rack("r1", 0), rack("r2", 8_000)),
    ),
)  # fmt: skip


def test_a_terminal_shows_bars_colors_and_branches() -> None:
    printed = painted(VIEW, terminal(utf8=True))
    assert "├─ r1" in printed
    assert "└─ r2" in printed
    assert "\x1b[31m████████ 0/8" in printed
    assert "\x1b[32m░░░░░░░░ 8/8" in printed
    assert "\x1b[33m████████ 1/16" in printed


def test_a_terminal_without_unicode_shows_ascii() -> None:
    printed = painted(VIEW, terminal(utf8=False))
    assert printed.isascii()
    assert "|- r1" in printed
    assert "######## 0/8" in printed
