"""Malformed objects end with exit code 2. The error names file, document, line and field; there is no traceback."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cli.conftest import EXAMPLES, Review, run_review

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations:
    scheduling.koordinator.sh/numa-topology-spec: '{"numaTopologyPolicy": "SingleNUMANode"}'
spec:
  containers:
  - name: c
    resources:
      limits:
        cpu: 1
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cpu: 1", "cpu: abc", "line 12: spec.containers[0].resources.limits[cpu]: 'abc' is not a quantity."),
        ("cpu: 1", "cpu: -1", "line 12: spec.containers[0].resources.limits[cpu]: "),
        ("cpu: 1", "cpu: [1]", "line 12: spec.containers[0].resources.limits[cpu]: "),
        ("cpu: 1", "cpu: 1.5.5", "line 12: spec.containers[0].resources.limits[cpu]: "),
        ("cpu: 1", "cpu: true", "line 12: spec.containers[0].resources.limits[cpu]: "),
        (
            "limits:\n        cpu: 1",
            "limits: 3",
            "line 11: spec.containers[0].resources.limits: This must be an object",
        ),
        ("  - name: c", "  - nam: c", "line 9: spec.containers[0].name: This is missing."),
        ("\nspec:", "\nspek:", "line 1: spec: This is missing."),
        ("  containers:", "  containers: []\n  initContainers:", "line 8: spec.containers: This is missing."),
        ("  containers:", "  containers: x\n  y:", "line 8: spec.containers: This must be a list, not 'x'."),
        (
            "  containers:",
            "  containers: [null]\n  y:",
            "line 8: spec.containers[0]: This must be an object, not None.",
        ),
        ("  annotations:", "  annotations: 3\n  y:", "line 5: metadata.annotations: This must be an object, not 3."),
        (
            '\'{"numaTopologyPolicy": "SingleNUMANode"}\'',
            "{numaTopologyPolicy: SingleNUMANode}",
            "line 6: metadata.annotations[scheduling.koordinator.sh/numa-topology-spec]: This must be text ",
        ),
        (
            "\nspec:",
            "\nspec:\n  nodeSelector: {a: yes}",
            "line 8: spec.nodeSelector[a]: This must be text (in quotes), not True.",
        ),
        ("\nspec:", "\nspec:\n  priority: high", "line 8: spec.priority: This must be a whole number, not 'high'."),
        ("\nspec:", "\nspec:\n  tolerations: {}", "line 8: spec.tolerations: This must be a list, not {}."),
        ("\nspec:", "\nspec:\n  affinity: []", "line 8: spec.affinity: This must be an object, not []."),
        (
            "\nspec:",
            "\nspec:\n  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution: {}",
            "nodeSelectorTerms: This is missing.",
        ),
        ("  name: p", "  name: 7", "line 4: metadata.name: This must be text, not 7."),
        ("  name: p", "  nam: p", "line 3: metadata.name: This is missing."),
        ("kind: Pod", "kid: Pod", "line 1: kind: This is missing."),
        ("kind: Pod", "kind: Pod\nkind: Pod", "line 3: not YAML: the key 'kind' appears twice in one object"),
    ],
)
def test_an_object_to_judge(review: Review, tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in POD
    file = tmp_path / "p.yaml"
    file.write_text(f"---\n{POD.replace(old, new, 1)}".removeprefix("---\n"))
    outcome = review("-f", file, "-o", "json")
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error: {file}: ")
    assert message in outcome.stderr


def test_a_workload_without_its_template(review: Review, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(f"{POD}---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec: {{}}\n")
    told = "spec.template: This is missing. It says what the pods look like."
    assert review("-f", file).stderr == f"error: {file}: document 2, line 17: {told}\n"


@pytest.mark.parametrize("kind", ["batch/v1 Job", "v1 Service"])
def test_the_metadata_of_a_workload(review: Review, tmp_path: Path, kind: str) -> None:
    api_version, name = kind.split()
    file = tmp_path / "w.yaml"
    file.write_text(f"apiVersion: {api_version}\nkind: {name}\nmetadata: {{name: w, annotations: true}}\n")
    assert review("-f", file).stderr == (
        f"error: {file}: document 1, line 3: metadata.annotations: This must be an object, not True.\n"
    )


def test_a_field_of_a_workloads_template(review: Review, tmp_path: Path) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1x"}}}]}}},
    }
    file = tmp_path / "w.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [job]}, indent=1))
    outcome = review("-f", file)
    path = "items[0].spec.template.spec.containers[0].resources.requests[cpu]"
    assert outcome.stderr.startswith(f"error: {file}: document 1, line 19: {path}: '1x' is not a quantity.")


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}},
}
NRT = {
    "apiVersion": "topology.node.k8s.io/v1alpha2",
    "kind": "NodeResourceTopology",
    "metadata": {"name": "n"},
    "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
    "zones": [
        {
            "name": "node-0",
            "type": "Node",
            "costs": [{"name": "node-0", "value": 10}],
            "resources": [{"name": "cpu", "capacity": "8", "allocatable": "8", "available": "8"}],
        }
    ],
}
RESIDENT = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "r", "namespace": "default"},
    "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}
        ],
    },
}
TOPOLOGY = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "t"},
    "spec": {"levels": [{"nodeLabel": "zone"}]},
}
WHOLE: list[dict[str, Any]] = [NODE, NRT, RESIDENT, TOPOLOGY]


def _changed(one: Any, path: tuple[str | int, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(one))
    held = copy
    for key in path[:-1]:
        held = held[key]
    held[path[-1]] = value
    return copy


@pytest.fixture
def node_arrays(tmp_path: Path) -> Path:
    return tmp_path / "cluster.json"


def _judge(review: Review, node_arrays: Path, objects: Any) -> Any:
    node_arrays.write_text("\n".join(map(json.dumps, objects)))
    return review("-f", EXAMPLES / "pod.yaml", cluster=node_arrays)


@pytest.mark.parametrize(
    ("document", "path", "value", "message"),
    [
        (1, ("status", "allocatable", "cpu"), "abc", "status.allocatable[cpu]: 'abc' is not a quantity."),
        (1, ("status", "allocatable"), "abc", "status.allocatable: This must be an object"),
        (1, ("metadata", "labels"), {"a": 3}, "metadata.labels[a]: This must be text (in quotes), not 3."),
        (1, ("spec", "taints"), [{"key": "k"}], "spec.taints[0].effect: This is missing."),
        (1, ("spec", "taints"), 3, "spec.taints: This must be a list, not 3."),
        (1, ("spec", "unschedulable"), "yes", "spec.unschedulable: This must be true or false, not 'yes'."),
        (1, ("status", "conditions"), ["Ready"], "status.conditions[0]: This must be an object, not 'Ready'."),
        (1, ("metadata", "name"), None, "metadata.name: This is missing."),
        (2, ("zones",), "x", "zones: This must be a list, not 'x'."),
        (2, ("zones", 0), 3, "zones[0]: This must be an object, not 3."),
        (2, ("zones", 0, "name"), 0, "zones[0].name: This must be text, not 0."),
        (
            2,
            ("zones", 0, "costs"),
            [{"name": "node-0", "value": "near"}],
            "zones[0].costs[0].value: This must be a whole number",
        ),
        (
            2,
            ("zones", 0, "resources", 0, "available"),
            "abc",
            "zones[0].resources[0].available: 'abc' is not a quantity.",
        ),
        (2, ("zones", 0, "resources", 0, "available"), "-1", "zones[0].resources[0].available: "),
        (2, ("zones", 0, "resources"), "cpu", "zones[0].resources: This must be a list, not 'cpu'."),
        (2, ("attributes",), {}, "attributes: This must be a list, not {}."),
        (2, ("topologyPolicies",), "None", "topologyPolicies: This must be a list, not 'None'."),
        (
            3,
            ("spec", "containers", 0, "resources", "requests", "cpu"),
            "1 cpu",
            "resources.requests[cpu]: '1 cpu' is no",
        ),
        (3, ("spec", "containers"), None, "spec.containers: This is missing."),
        (3, ("metadata", "annotations"), [], "metadata.annotations: This must be an object, not []."),
        (3, ("status", "conditions", 0), True, "status.conditions[0]: This must be an object, not True."),
        (3, ("status", "containerStatuses"), [{}], "status.containerStatuses[0].name: This is missing."),
        (3, ("status", "containerStatuses", 0, "resources"), 1, "resources: This must be an object, not 1."),
        (4, ("spec", "levels"), [], "spec.levels: There are no levels."),
        (4, ("spec", "levels"), [{"alias": "x"}], "spec.levels[0].nodeLabel: This is missing."),
        (
            4,
            ("spec", "levels"),
            [{"nodeLabel": "a"}, {"nodeLabel": "a"}],
            "spec.levels[1].nodeLabel: a is a level already.",
        ),
    ],
)
def test_an_object_of_the_snapshot(
    review: Review, node_arrays: Path, document: int, path: tuple[str | int, ...], value: Any, message: str
) -> None:
    objects = [_changed(one, path, value) if i == document else one for i, one in enumerate(WHOLE, start=1)]
    outcome = _judge(review, node_arrays, objects)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error: {node_arrays}: document {document}, line {document}: ")
    assert message in outcome.stderr


@pytest.mark.parametrize("position", range(4))
def test_two_objects_of_one_name(review: Review, node_arrays: Path, position: int) -> None:
    outcome = _judge(review, node_arrays, [*WHOLE, WHOLE[position]])
    assert outcome.code == 2
    first = f"first in {node_arrays}: document {position + 1}, line {position + 1}."
    assert outcome.stderr == (
        f"error: {node_arrays}: document 5, line 5: metadata.name: {WHOLE[position]['kind']} "
        f"{WHOLE[position]['metadata']['name']} appears twice, {first}\n"
    )


@pytest.mark.parametrize(
    ("path", "value", "warning"),
    [
        (("zones", 0, "name"), "rack", "zone 'rack' is ignored"),
        (("attributes", 0, "value"), "single", "topologyManagerPolicy 'single' is no known policy"),
    ],
)
def test_what_the_service_only_logs_is_a_warning(
    review: Review, node_arrays: Path, path: tuple[str | int, ...], value: Any, warning: str
) -> None:
    outcome = _judge(review, node_arrays, [NODE, _changed(NRT, path, value)])
    assert outcome.code == 1
    assert outcome.stderr.startswith(f"warning: {node_arrays}: document 2, line 2: NodeResourceTopology n: {warning}")


def test_a_snapshot_without_a_cluster_in_it(review: Review, node_arrays: Path) -> None:
    outcome = _judge(review, node_arrays, [TOPOLOGY])
    assert outcome.code == 2
    assert outcome.stderr == f"error: {node_arrays}: there is no Node in it, so there is no cluster to judge by\n"


_garbage = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=4)
    | st.sampled_from(["8", "node-0", "SingleNUMANode"]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.text(max_size=3), below, max_size=2),
    max_leaves=4,
)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(one for key, held in below for one in _paths(held, (*path, key)))]


@settings(max_examples=150)
@given(st.data())
def test_garbage_anywhere_ends_with_a_message(data: st.DataObject) -> None:
    objects = [*WHOLE]
    position = data.draw(st.integers(0, len(WHOLE) - 1))
    path = data.draw(st.sampled_from([path for path in _paths(WHOLE[position]) if path]))
    objects[position] = _changed(WHOLE[position], path, data.draw(_garbage))
    with TemporaryDirectory() as folder:
        outcome = _judge(run_review, Path(folder, "cluster.yaml"), objects)
    assert outcome.code in {0, 1, 2}
    assert (outcome.code == 2) == outcome.stderr.startswith("error: ")


@settings(max_examples=150)
@given(st.data())
def test_garbage_in_the_object_ends_with_a_message(data: st.DataObject) -> None:
    pod = {
        **RESIDENT,
        "metadata": {
            "name": "p",
            "labels": {"a": "b"},
            "annotations": {"scheduling.koordinator.sh/numa-topology-spec": "{}"},
            "ownerReferences": [{"kind": "Job", "controller": True}],
        },
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
            "initContainers": [{"name": "i", "restartPolicy": "Always"}],
            "nodeSelector": {"a": "b"},
            "overhead": {"cpu": "1m"},
            "resources": {"requests": {"cpu": "2"}},
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "schedulingGates": [{"name": "g"}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In"}]}}
                    ],
                }
            },
        },
    }
    path = data.draw(st.sampled_from([path for path in _paths(pod) if path]))
    text = json.dumps(_changed(pod, path, data.draw(_garbage)))
    outcome = run_review("-f", "-", "-o", data.draw(st.sampled_from(["json", "yaml", "table"])), stdin=text)
    assert outcome.code in {0, 1, 2}
    assert (outcome.code == 2) == outcome.stderr.startswith("error: ")
