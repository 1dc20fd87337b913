"""The scenarios, each a function of the seed. Sizes are for two CPU cores and one minute a run.

a  replicaset  kubernetes issue 84869: free in sum, but not in one NUMA node
b  mixed       nodes of every policy and scope, pods of every policy
c  devices     GPU, NIC and CPUs of one NUMA node
d  burst       500 pods at once, while each NodeResourceTopology is 10 seconds late
e  gangs       whole groups in one rack, each pod in one NUMA node
f  churn       jobs that come and go on machines that are 90 % full
-  defaults    kubelets with default settings: nothing is aligned, and no NUMA node has anything to allocate
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.cluster.kubelets import SimulatedMachine, even_machine
from tests.cluster.nodes import RACK_LABEL
from tests.proof.scenario import ProofScenario, drawing
from tests.proof.workload import Burst, ControllerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GPU, NIC = "example.com/gpu", "example.com/nic"


def replicaset(seed: int, machines: int = 20) -> ProofScenario:
    """Machines with two NUMA nodes of 16 CPUs hold three pods of 10 CPUs each by sum, but two by NUMA node.

    Five of six replicas have room. Small pods come later, to see who can still be served.
    """
    del seed  # nothing is random here but the order in which controllers and scheduler work
    return ProofScenario(
        "replicaset",
        [even_machine(f"node-{number:03}") for number in range(machines)],
        [
            Burst("large", machines * 12 // 5, [_amounts(10)]),
            Burst("small", machines, [_amounts(2)], at=6.0),
        ],
        seconds=20.0,
        steady_from=12.0,
    )


def mixed(seed: int, of_each: int = 5) -> ProofScenario:
    """So many machines of each kind. Pods that need one NUMA node, one for each container, several, or none."""
    kinds = [
        ("single-numa-node", "container"),
        ("single-numa-node", "pod"),
        ("restricted", "container"),
        ("best-effort", "pod"),
    ]
    machines = [
        even_machine(f"{policy}-{scope}-{number}", policy=policy, scope=scope)
        for policy, scope in kinds
        for number in range(of_each)
    ]
    workloads = [  # counts are rounded up
        Burst("strict", -(-16 * of_each // 5), [_amounts(7)]),
        Burst("pair", -(-8 * of_each // 5), [_amounts(5), _amounts(5)]),
        # More of both than one NUMA node has: a kubelet that is strict wants both to need two.
        Burst("wide", -(-4 * of_each // 5), [{"cpu": "20", "memory": "80Gi"}], policy="Restricted"),
        Burst("loose", -(-8 * of_each // 5), [_amounts(9)], policy="BestEffort"),
        Burst("any", -(-14 * of_each // 5), [_amounts(6)], policy=""),
    ]
    random = drawing(seed)
    random.shuffle(workloads)
    in_turn = [replace(workload, at=0.5 * order) for order, workload in enumerate(workloads)]
    return ProofScenario("mixed", machines, in_turn, 25.0, 15.0, lag=2.0)


def devices(seed: int, machines: int = 12) -> ProofScenario:
    """Each NUMA node has 16 CPUs, 4 GPUs and 2 NICs. Pods without devices come first and take room."""
    like = even_machine("", devices={GPU: (4, 4), NIC: (2, 2)}, scope="pod")
    random = drawing(seed)
    workloads = [
        Burst("cpu", machines * 3 // 2, [_amounts(6)]),
        Burst("infer", machines * 2, [_amounts(3, **{GPU: "1"})], at=1.0 + random.random()),
        Burst("train", machines * 5 // 2, [_amounts(5, **{GPU: "2", NIC: "1"})], at=3.0 + random.random()),
    ]
    fleet = [replace(like, name=f"gpu-{number:03}") for number in range(machines)]
    return ProofScenario("devices", fleet, workloads, 25.0, 15.0, lag=2.0)


def burst(seed: int) -> ProofScenario:
    """500 pods of five sizes at once on 100 machines, 84 % of all CPUs, and every topology 10 seconds late."""
    random = drawing(seed)
    sizes = {7: 150, 5: 250, 6: 40, 3: 30, 9: 30}
    workloads = [Burst(f"cpu-{cpu}", pods, [_amounts(cpu)]) for cpu, pods in sizes.items()]
    random.shuffle(workloads)
    return ProofScenario(
        "burst", [even_machine(f"node-{number:03}") for number in range(100)], workloads, 50.0, 30.0, lag=10.0
    )


def gangs(seed: int, per_rack: int = 6) -> ProofScenario:
    """Four racks, some slots taken; eight groups of a third of a rack, each to stand in one rack.

    A machine has four slots of 7 CPUs (two in each NUMA node), so two groups fit into a rack beside what is there. With
    six machines in each rack:

        rack-0 [20 free]   rack-1 [18]   rack-2 [16]   rack-3 [22]
    """
    random = drawing(seed)
    machines = [
        even_machine(f"rack-{rack}-node-{number}", labels={RACK_LABEL: f"rack-{rack}"})
        for rack in range(4)
        for number in range(per_rack)
    ]
    slots = 4 * per_rack
    taken = [
        Burst(f"taken-{rack}", slots // part, [_amounts(7)], node_selector={RACK_LABEL: f"rack-{rack}"})
        for rack, part in enumerate((6, 4, 3, 12))
    ]
    groups = [
        Burst(
            f"gang-{number}",
            slots // 3,
            [_amounts(7)],
            kind=ControllerKind.JOB,
            at=4.0 + 4.0 * random.random(),
            one_rack=True,
        )
        for number in range(8)
    ]
    return ProofScenario("gangs", machines, [*taken, *groups], 35.0, 20.0, lag=2.0)


def churn(seed: int, machines: int = 24) -> ProofScenario:
    """Jobs of one pod, 3 to 10 CPUs for 8 to 14 seconds, so many that they request 90 % of all CPUs."""
    random = drawing(seed)
    fleet = [even_machine(f"node-{number:03}") for number in range(machines)]
    seconds = 50.0
    sizes, mean_run = (3, 5, 6, 10), 11.0
    # By Little's law: CPUs in use = arrivals per second x mean size x mean run time.
    rate = 0.9 * sum(machine.millicores for machine in fleet) / 1000 / (sum(sizes) / len(sizes) * mean_run)
    workloads: list[Burst] = []
    at = 0.0
    while at < seconds:
        name = f"job-{len(workloads):04}"
        run = random.uniform(mean_run - 3, mean_run + 3)
        workloads.append(
            Burst(name, 1, [_amounts(random.choice(sizes))], kind=ControllerKind.JOB, at=at, run_seconds=run)
        )
        at += random.expovariate(rate)
    return ProofScenario("churn", fleet, workloads, seconds, 15.0, lag=3.0)


def defaults(seed: int, machines: int = 10) -> ProofScenario:
    """Machines as a fresh kubelet runs them: no manager is static, and the exporter lists 0 CPUs as allocatable.

    Each has two GPUs near NUMA node 0, which alone are listed there. All pods have room; none may be kept from it.
    """
    del seed  # nothing is random here but the order in which controllers and scheduler work
    like = SimulatedMachine(
        "", devices={GPU: (2, 0)}, policy="none", cpu_manager="none", memory_manager="None", reserved_cpus=""
    )
    workloads = [
        Burst("plain", 2 * machines, [_amounts(8)], policy=""),
        Burst("asking", machines, [_amounts(4)], at=1.0),
        Burst("gpu", machines, [_amounts(4, **{GPU: "1"})], at=2.0, policy=""),
    ]
    fleet = [replace(like, name=f"node-{number:03}") for number in range(machines)]
    return ProofScenario("defaults", fleet, workloads, 15.0, 8.0, settings={"manage": "All"})


SCENARIOS: Mapping[str, Callable[[int], ProofScenario]] = {
    function.__name__: function for function in (replicaset, mixed, devices, burst, gangs, churn)
}


def _amounts(cpu: int, **devices: str) -> dict[str, str]:
    return {"cpu": str(cpu), "memory": f"{cpu}Gi", **devices}
