"""`review` reads Namespaces from the snapshot and the files. Flags replace the settings."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.pods import plain
from tests.builders.workloads import template, workload
from tests.unit.cli.conftest import CLUSTER, Review

LABEL = "topology-webhook.dev/manage"
SPEC = "scheduling.koordinator.sh/numa-topology-spec"
SINGLE = '{"numaTopologyPolicy": "SingleNUMANode"}'


def namespace(name: str = "team-a", labels: Any = None, annotations: Any = None) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def of_team(annotations: Any = None, *, limits: bool = True, **how: Any) -> dict[str, Any]:
    """A pod of the namespace; Guaranteed with limits."""
    raw = plain(namespace="team-a", annotations=annotations, **how)
    if not limits:
        del raw["spec"]["containers"][0]["resources"]["limits"]
    return raw


def job(annotations: Any = None) -> dict[str, Any]:
    """A Job with these annotations on its template."""
    spec = {"template": template(annotations=annotations)}
    return workload(kind="Job", name="j", metadata={"namespace": "team-a"}, spec=spec)


class Reviewed:
    """Run `review` against the example cluster and more objects."""

    def __init__(self, review: Review, folder: Path) -> None:
        self._review = review
        self._folder = folder

    def __call__(self, *objects: dict[str, Any], cluster: tuple[dict[str, Any], ...] = (), flags: Any = ()) -> Any:
        """The JSON entry of the last object."""
        file, node_arrays = self._folder / "objects.yaml", self._folder / "snapshot.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        node_arrays.write_text(CLUSTER.read_text() + "\n---\n" + yaml.safe_dump_all(cluster))
        outcome = self._review("-f", file, "-o", "json", *flags, cluster=node_arrays)
        return outcome.json[-1]


@pytest.fixture
def reviewed(review: Review, tmp_path: Path) -> Reviewed:
    return Reviewed(review, tmp_path)


def is_managed(entry: Any) -> bool:
    return not entry["message"].startswith("unmanaged: ")


def test_the_flag_stands_for_the_setting(reviewed: Reviewed) -> None:
    assert not is_managed(reviewed(of_team()))
    aligned = ("--manage", "Aligned")
    assert is_managed(reviewed(of_team(), flags=aligned))
    assert is_managed(reviewed(job(), flags=aligned))
    assert not is_managed(reviewed(of_team(limits=False), flags=aligned))
    assert is_managed(reviewed(of_team(limits=False), flags=("--manage", "All")))


@pytest.mark.parametrize(("value", "flag"), [("aligned", "Annotated"), ("annotated", "Aligned"), ("all", "Annotated")])
def test_a_label_in_the_snapshot_wins_over_the_flag(reviewed: Reviewed, value: str, flag: str) -> None:
    cluster = (namespace(labels={LABEL: value}),)
    for raw in (of_team(), job()):
        assert is_managed(reviewed(raw, cluster=cluster, flags=("--manage", flag))) == (value != "annotated")


def test_a_namespace_among_the_objects_counts_for_those_that_follow_and_takes_the_snapshots_place(
    reviewed: Reviewed,
) -> None:
    made = namespace(labels={LABEL: "aligned"})
    assert is_managed(reviewed(made, of_team()))
    assert is_managed(reviewed(made, of_team(), cluster=(namespace(labels={LABEL: "annotated"}),)))
    assert reviewed(of_team(), made)["message"].startswith("unmanaged: a Namespace (v1) has no pods to place")


def test_a_namespaces_annotation_is_the_policy_of_pods_that_state_none(reviewed: Reviewed) -> None:
    cluster = (namespace(labels={LABEL: "aligned"}, annotations={SPEC: SINGLE}),)
    restricted = ("--default-numa-topology-policy", "Restricted")
    for raw in (of_team(), job()):
        assert reviewed(raw, cluster=cluster, flags=restricted)["message"].startswith("SingleNUMANode: 2 of 6 nodes")
    assert reviewed(of_team({SPEC: "{}"}), flags=restricted)["message"].startswith(
        "Restricted: none of 6 nodes fits now"
    )
    assert reviewed(of_team({SPEC: '{"numaTopologyPolicy": ""}'}), cluster=cluster)["message"].startswith(
        "each node's own"
    )


def test_what_a_namespace_has_wrong_is_told_for_it_and_for_its_pods(reviewed: Reviewed) -> None:
    unknown = namespace(labels={LABEL: "everything"})
    (warning,) = reviewed(unknown)["warnings"]
    assert warning.startswith(f"namespace team-a: metadata.labels[{LABEL}]: 'everything' is unknown")
    assert reviewed(of_team(), cluster=(unknown,))["warnings"] == [warning]
    wrong = namespace(annotations={SPEC: "{"})
    entry = reviewed(of_team({SPEC: "{}"}), cluster=(wrong,))
    assert entry["verdict"] == "deny"
    assert entry["message"].startswith(f"namespace team-a: metadata.annotations[{SPEC}]: ")
    assert not is_managed(reviewed(of_team(), cluster=(wrong,)))


def test_a_group_takes_its_namespaces_policy_too(reviewed: Reviewed) -> None:
    # 10 cpus are free on one NUMA node of node-c, and on node-e, of whose NUMA nodes nothing is known.
    asked = {"pod-group-name": "g", "topology-webhook.dev/min-member": "2"}
    pods = [of_team(asked, name=name, cpu=10) for name in "pq"]
    assert reviewed(*pods)["verdict"] == "allow"
    assert reviewed(*pods, cluster=(namespace(annotations={SPEC: SINGLE}),))["verdict"] == "wait"


def test_excluded_namespaces_are_left_alone(reviewed: Reviewed) -> None:
    excluded = ("--manage", "All", "--excluded-namespaces", "team-a")
    assert reviewed(of_team(), flags=excluded)["message"] == "unmanaged: its namespace team-a is excluded"
