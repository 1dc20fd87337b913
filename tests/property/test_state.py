"""In whatever order events arrive, the state equals one built from scratch, and existing snapshots never change."""

import copy
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.records import node, resident, state, tell, topology
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.extra_rows import with_rows
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.rare_resources import MAX_CELLS
from webhook.formats.kubernetes.node import Node, Taint
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy, Scope

OFFERED = ("cpu", "memory", "pods", "x.io/gpu", "x.io/nic")
NAMES = st.sampled_from("abcde")
POLICIES = st.sampled_from(NUMAPolicy)
NODES = st.builds(
    node,
    name=NAMES,
    allocatable=st.dictionaries(st.sampled_from(OFFERED), st.integers(0, 9)),
    labels=st.dictionaries(st.sampled_from(["zone", "rack"]), st.sampled_from("xyz")),
    taints=st.lists(
        st.builds(Taint, st.just("t"), st.sampled_from("ab"), st.sampled_from(["NoSchedule", "PreferNoSchedule"])),
        max_size=1,
    ),
    cordoned=st.booleans(),
    ready=st.booleans(),
    policy_label=st.none() | POLICIES,
)
TOPOLOGIES = st.builds(
    topology,
    node=NAMES,
    free=st.lists(st.dictionaries(st.sampled_from(["cpu", "x.io/gpu", "x.io/nic"]), st.integers(0, 9)), max_size=4),
    capacity=st.just({"cpu": 9, "x.io/gpu": 9, "x.io/nic": 9}),
    policy=POLICIES,
    scope=st.sampled_from(Scope),
    publisher=st.sampled_from(Publisher),
    max_numa_nodes=st.sampled_from([2, 8]),
)
HELD = st.dictionaries(st.integers(0, 3), st.dictionaries(st.just("cpu"), st.integers(1, 5)), max_size=2)
PODS = st.builds(
    resident,
    name=st.sampled_from("pqrst"),
    node=NAMES | st.just(""),
    requests=st.dictionaries(st.sampled_from(["cpu", "x.io/gpu", "example.com/on-no-node"]), st.integers(0, 5)),
    numa=st.none() | HELD,
    policy=st.none() | POLICIES,
    terminal=st.booleans(),
)
EVENTS = st.one_of(
    NODES,
    TOPOLOGIES,
    PODS,
    st.tuples(st.just("delete_node"), NAMES),
    st.tuples(st.just("delete_topology"), NAMES),
    st.tuples(st.just("delete_pod"), st.sampled_from([f"default/{pod}" for pod in "pqrst"])),
    st.tuples(st.just("snapshot"), st.booleans()),
    st.just(("let_go", 0)),
    st.tuples(st.just("write_some"), st.integers(1, 3)),
    st.tuples(st.just("column"), st.sampled_from(["zone", "rack"])),
)


def by_name(node_arrays: NodeArrays) -> dict[str, dict[str, Any]]:
    """The content of a snapshot for each node, independent of columns, rows and codes."""
    described: dict[str, dict[str, Any]] = {}
    for n, name in enumerate(node_arrays.names):
        facts: dict[str, Any] = {
            "taints": node_arrays.taint_sets[node_arrays.taint_set[n]],
            "labels": node_arrays.labels.rows[n],
            "soft taints": node_arrays.soft_taints.rows[n],
        }
        for field in NodeArrays.__slots__:
            array = getattr(node_arrays, field, None)
            if isinstance(array, np.ndarray) and field not in {"order", "taint_set"}:
                facts[field] = _without_padding(node_arrays, field, array[..., n])
        for key in ("zone", "rack"):
            codes, vocabulary = node_arrays.labels.column(key)
            facts[key] = vocabulary.values[codes[n]] if codes[n] >= 0 else None
        described[name] = facts
    return described


def _without_padding(node_arrays: NodeArrays, field: str, column: Any) -> Any:
    """By resource if the field has rows, without empty resources and zones."""
    if field in {"available", "capacity", "zone_allocatable", "allocatable", "requested", "node_free", "listed"}:
        # A row is given up late: a resource that no node names any more does not tell two states apart.
        named = np.asarray(np.append(node_arrays.allocatable >= 0, node_arrays.listed, axis=1).any(axis=1))
        rows = {name: np.atleast_1d(column[row]) for row, name in enumerate(node_arrays.resources) if named[row]}
        silent = 0 if field in {"requested", "node_free", "listed"} else -1
        return {resource: _trimmed(row, silent) for resource, row in rows.items() if (row != silent).any()}
    if field == "distances":
        return {tuple(at): int(column[tuple(at)]) for at in np.argwhere(column != 255).tolist()}
    return _trimmed(np.atleast_1d(column), -1 if field == "zone_ids" else 0)


def _trimmed(row: Any, silent: int) -> list[int]:
    values: list[int] = row.astype(np.int64).tolist()
    while values and values[-1] == silent:
        values.pop()
    return values


# The last has room for one row beside those that are always there; what has none is laid out when it is asked for.
@settings(deadline=None, max_examples=150)
@given(st.lists(EVENTS, max_size=40), st.sampled_from([MAX_CELLS, 16, 4]))
def test_any_order_of_events_leads_to_the_state_built_from_scratch(events: list[Any], cells: int) -> None:
    cluster = ClusterState(cells=cells)
    held: list[tuple[NodeArrays, dict[str, Any]]] = []
    for event in events:
        match event:
            case Node() | NodeTopology() | ResidentPod():
                tell(cluster, event)
            case ("snapshot", keep):
                node_arrays = cluster.node_arrays()
                if keep:
                    held.append((node_arrays, copy.deepcopy(by_name(with_rows(node_arrays, OFFERED)))))
            case ("let_go", _):
                check(held[:1])
                del held[:1]
            case ("column", key):
                cluster.node_arrays().labels.column(key)
            case (method, argument):
                getattr(cluster, method)(argument)
    scratch = state(*cluster.pods.values(), *cluster.topologies.values(), *cluster.nodes.values())
    node_arrays = cluster.node_arrays()
    assert by_name(with_rows(node_arrays, OFFERED)) == by_name(scratch.node_arrays())
    assert dict(node_arrays.index) == {name: n for n, name in enumerate(node_arrays.names)}
    assert [node_arrays.names[n] for n in node_arrays.order] == sorted(node_arrays.names)
    check(held)


def check(held: list[tuple[NodeArrays, dict[str, Any]]]) -> None:
    """Whether snapshots are as they were when they were taken."""
    for kept, described in held:
        assert by_name(with_rows(kept, OFFERED)) == described
