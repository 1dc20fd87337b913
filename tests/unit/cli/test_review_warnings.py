"""`review` prints the warnings that the API server prints when a pod or workload is created."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.builders.pods import pod
from tests.builders.topologies import topology
from tests.builders.workloads import template, workload
from tests.unit.cli.conftest import EXAMPLES, run_review

RACKS = EXAMPLES / "snapshots" / "racks.yaml"
TOPOLOGY = topology(name="racks", labels=("example.com/hall", "example.com/rack"))
SINGLE = {"scheduling.koordinator.sh/numa-topology-spec": '{"numaTopologyPolicy": "SingleNUMANode"}'}
NAMED = {"kai.scheduler/topology": "racks"}
REQUIRED, PREFERRED = (f"kai.scheduler/topology-{how}-placement" for how in ("required", "preferred"))
RACK = {**NAMED, REQUIRED: "rack"}
PREFERRED_SEGMENTS = {"kai.scheduler/segment-size": "2", "kai.scheduler/segment-topology-preferred-placement": "hall"}
MISTYPED = "kai.scheduler/topology-requierd-placement"


def without_memory_limit(**how: Any) -> dict[str, Any]:
    """A template whose pods are Burstable."""
    made = template(**how)
    del made["spec"]["containers"][0]["resources"]["limits"]["memory"]
    return made


def job(own: Mapping[str, str], pods: int = 4, of: Mapping[str, Any] | None = None) -> dict[str, Any]:
    spec = {"parallelism": pods, "completions": pods, "template": of or template()}
    return workload(kind="Job", annotations=own, spec=spec)


def one(folder: Path, raw: Mapping[str, Any], *flags: str) -> Any:
    """The answer for an object that follows the topology."""
    (folder / "objects.json").write_text("\n".join(map(json.dumps, (TOPOLOGY, raw))))
    return run_review("-f", folder / "objects.json", "-o", "json", *flags, cluster=RACKS).json[1]


@pytest.mark.parametrize(
    ("annotations", "flags", "warning"),
    [
        ({**RACK, MISTYPED: "rack"}, (), f"metadata.annotations[{MISTYPED}] is not read. Did you mean {REQUIRED}?"),
        (NAMED, (), "metadata.annotations[kai.scheduler/topology] names a topology and no level"),
        ({**RACK, **PREFERRED_SEGMENTS}, (), '"hall" is coarser than the required level "rack" of topology racks'),
        ({"topology-webhook.dev/strategy": "Balanced"}, (), "[topology-webhook.dev/strategy] has no effect"),
        (RACK, ("--gate", "Never"), "With the setting gate=Never pods are placed one by one"),
    ],
)
def test_annotations_that_do_less_than_they_seem_to(
    tmp_path: Path, annotations: dict[str, str], flags: tuple[str, ...], warning: str
) -> None:
    (told,) = one(tmp_path, job(annotations), *flags)["warnings"]
    assert warning in told


def test_what_stands_in_an_object_cannot_control_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\u202e\r\n" + "x" * 10_000
    inner = {**job(RACK), "metadata": {"name": evil, "annotations": RACK}}
    wrapper = workload(
        kind=evil, api_version="example.com/v1", annotations=RACK, spec={"components": [{"template": inner}]}
    )
    (tmp_path / "objects.json").write_text(json.dumps(wrapper))
    printed = run_review("-f", tmp_path / "objects.json", cluster=RACKS).stdout
    assert "\\x1b]0;owned" in printed
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert all(len(line) < 1_000 for line in printed.splitlines()[:1])
    assert not any(line.startswith("x") for line in printed.splitlines())


def test_a_bare_pod_is_told_as_well(tmp_path: Path) -> None:
    assert one(tmp_path, pod(annotations={MISTYPED: "rack"}))["warnings"] == [
        f"metadata.annotations[{MISTYPED}] is not read. Did you mean {REQUIRED}?"
    ]


def test_a_workload_whose_pods_no_kubelet_aligns_is_told_once_or_denied(tmp_path: Path) -> None:
    told = (
        'SingleNUMANode is asked for, but no kubelet aligns this pod: container "main" has no limits.memory; '
        "set spec.template.spec.containers[0].resources.limits.memory to 1Gi"
    )
    for raw in (job(SINGLE, of=without_memory_limit()), job({}, of=without_memory_limit(annotations=SINGLE))):
        entry = one(tmp_path, raw)
        assert (entry["verdict"], entry["warnings"]) == ("allow", [told])
        refused = one(tmp_path, raw, "--not-alignable", "Deny")
        assert (refused["verdict"], refused["message"]) == ("deny", told)


def test_a_group_that_no_rack_could_ever_hold(tmp_path: Path) -> None:
    # rack-1 has three machines of 32 cpus.
    entry = one(tmp_path, job({**SINGLE, **RACK}, pods=13))
    assert (entry["verdict"], entry["group"]["fitsEmptyCluster"]) == ("wait", False)
    assert entry["message"].endswith(
        "not even an empty cluster has a place for it: the best rack, rack-1, would hold 12 of 13 pods; "
        "needed: at least 8 more cpu there"
    )
    waits = one(tmp_path, job({**SINGLE, **RACK}, pods=12))
    assert (waits["verdict"], waits["group"]["fitsEmptyCluster"]) == ("wait", True)
    assert "not even" not in waits["message"]


def test_a_preferred_rack_that_is_missed(tmp_path: Path) -> None:
    entry = one(tmp_path, job({**SINGLE, **NAMED, PREFERRED: "rack"}, pods=10))
    assert entry["verdict"] == "allow"
    assert entry["message"].endswith("; preferred rack missed: in 2 racks (rack-1, rack-2)")
    (missed,) = entry["group"]["missed"]
    assert (missed["level"], [path[-1][1] for path in missed["domains"]]) == ("example.com/rack", ["rack-1", "rack-2"])
    assert one(tmp_path, job({**SINGLE, **NAMED, PREFERRED: "rack"}))["group"]["missed"] == []
