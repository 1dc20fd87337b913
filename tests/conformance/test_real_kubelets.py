"""What real kubelets with full-pcpus-only answered, pod by pod, and what is predicted once their options are stated.

`recorded/real_kubelet_whole_cores.jsonl.gz` has the form of the kubelet cases. The machines were made of files that an
unmodified kubelet reads as its hardware; one of them has one thread per core. No exporter publishes the option.
"""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.builders.nodes import node
from tests.conformance.plugin import NO_INTENT
from tests.conformance.reference import ALLOCATION, admit
from tests.conformance.reference_machine import Machine
from tests.property.machines import published
from webhook.engine.decide import decide
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.nrt import NodeTopology
from webhook.model.names import KUBELET_OPTIONS

RECORDED = Path(__file__).parent / "recorded" / "real_kubelet_whole_cores.jsonl.gz"


def predicted(described: dict[str, Any], machine: Machine, pod: Pod, *, stated: bool) -> bool:
    """Whether the machine is predicted to admit the pod. stated: whether its Node states its kubelet's options."""
    amounts = {name: len(devices) for name, devices in described["devices"].items()}
    raw = node(name="node", cpus=1000, memory="1Ti", devices={**amounts, "hugepages-2Mi": 1 << 40})
    if stated:
        threads = described["numa"][0].get("threadsPerCore", 1)
        raw["metadata"]["annotations"] = {KUBELET_OPTIONS: f"full-pcpus-only=true,threads-per-core={threads}"}
    state = ClusterState()
    state.upsert_node(Node.from_object(raw))
    state.upsert_topology(NodeTopology.from_object(published(described, machine)))
    return bool(decide(Snapshot(state.node_arrays()), pod, NO_INTENT).fits[0])


def answers(*, stated: bool) -> Counter[tuple[bool, str]]:
    """How often: whether a pod was predicted to be admitted, and the kubelet's reason (empty: it was admitted)."""
    found: Counter[tuple[bool, str]] = Counter()
    for line in gzip.decompress(RECORDED.read_bytes()).splitlines():
        case = json.loads(line)
        machine = Machine(case["machine"])
        for raw, answer in zip(case["pods"], case["expect"]["pods"], strict=True):
            for gone in case["remove"].get(answer["pod"], []):
                if f"default/{gone}" in machine.pods:
                    machine.remove(f"default/{gone}")
            pod = Pod.from_object({**raw, "spec": {**raw["spec"], "nodeName": None}})
            found[predicted(case["machine"], machine, pod, stated=stated), answer.get("reason", "")] += 1
            if answer["admit"]:
                admit(machine, pod)
    return found


def test_with_their_options_stated_no_pod_goes_to_a_kubelet_that_rejects_it_for_cores() -> None:
    found = answers(stated=True)
    assert {reason for fits, reason in found if not fits} == {"TopologyAffinityError", "SMTAlignmentError", ALLOCATION}
    # What is left is about memory over several NUMA nodes of a best-effort node, which an NRT does not show.
    assert {reason for fits, reason in found if fits} == {"", ALLOCATION}
    assert found[True, ALLOCATION] == 2


def test_without_a_statement_these_kubelets_reject_what_looks_fine() -> None:
    assert answers(stated=False)[True, "SMTAlignmentError"] == 16
