"""Machines with a real kubelet: the unmodified program, on hardware that is only described.

A kubelet runs in namespaces of its own (user and mount), in which files of ours hide the host's hardware (hardware.py).
Its Topology, CPU, memory and device managers, its checkpoints, its pod resources API and its plugin sockets are real.
One program, `node-runtime` (controlplane/noderuntime), is the container runtime, the device plugins and the drivers of
Dynamic Resource Allocation of all machines; nothing runs in a pod. One with the annotation `RUN_SECONDS` succeeds after
that time, and a container whose name begins with `init` ends at once.

Life cycle of `real_kubelets()`, a context manager:
1. The folders of the machines are written, the runtime and the kubelets are started.
2. It is ready when every Node is, and shows the machine's devices, and the ResourceSlices are there.
3. Any kubelet can be killed and started again (`restart`); its pods run on.
4. On exit the programs end and with them their namespaces; the Nodes and NodeResourceTopologies are deleted. Pods must
   be gone before.

On the host nothing changes: a user namespace has no right to do so, and the tunables of the running kernel that a
kubelet writes when it starts are files of ours.
"""

from __future__ import annotations

import contextlib
import functools
import json
import shlex
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.hardware import RESERVED_KIB, write_hardware
from tests.cluster.kubelets import READY_SECONDS, SLICES, cpu_list
from tests.cluster.nodes import NODES, delete_nodes
from tests.cluster.process import Process
from tests.cluster.toolchain import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine

RUNTIME = "node-runtime"
KUBELET_CONFIG = "config.yaml"
_ROOT = "/var/lib/kubelet"
_KUBECONFIG = "kubeconfig"
_SHELL = "sh", "-ec"
_RUNTIMES = frozenset({"cri.sock", "images"})
"""What the container runtime has in a machine's folder."""
# A kubelet has 6 inotify instances and its exporter one or two; a user has 128 by Linux' default.
_INSTANCES_PER_MACHINE = 8
_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
_NAMESPACES_LIMIT = Path("/proc/sys/user/max_user_namespaces")
# ENOSPC: what the kernel answers where that limit is reached, or 0.
_NO_MORE = "No space left on device"


class ImpossibleError(RuntimeError):
    """Real kubelets cannot run here. The message says why."""


@functools.cache
def namespaces() -> tuple[str, ...]:
    """The command in front of a program that gives it namespaces in which it may mount. Raises `ImpossibleError`.

    A user namespace where the host has them, else those of root.
    """
    told = ""
    for command in (("unshare", "--mount", "--map-root-user"), ("unshare", "--mount")):
        trial = [*command, *_SHELL, "mount -t tmpfs tmpfs /var/lib && mount --bind /proc/version /proc/cpuinfo"]
        try:
            done = subprocess.run(trial, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise ImpossibleError("real kubelets need Linux and its program unshare") from None
        if done.returncode == 0:
            return command
        told = told or done.stderr.strip()
    if _NO_MORE in told:
        told += f" ({_NAMESPACES_LIMIT} is {_NAMESPACES_LIMIT.read_text().strip()})"
    raise ImpossibleError(f"real kubelets need user namespaces, or root: {told}")


def require_possible(machines: int) -> None:
    """Raise `ImpossibleError` unless so many real kubelets can run here."""
    namespaces()
    most = int(_INSTANCES.read_text()) // _INSTANCES_PER_MACHINE
    if machines > most:
        raise ImpossibleError(f"{machines} real kubelets: {_INSTANCES} allows {most}, {_INSTANCES_PER_MACHINE} each")


class RealKubelets:
    """The running machines. Use `real_kubelets()`."""

    def __init__(self, plane: ControlPlane, machines: Sequence[SimulatedMachine], folder: Path) -> None:
        self._plane = plane
        self._machines = {machine.name: machine for machine in machines}
        self._folder = folder
        self.state = folder / "state"
        """Each machine has a folder of its name there, which is its kubelet's /var/lib/kubelet."""
        self._places: dict[str, Mapping[str, Path]] = {}
        self._kubelet_version = _version(plane.assets["kubelet"])
        for machine in machines:
            self._write(machine)

    @property
    def processes(self) -> Sequence[Process]:
        """The programs, of which any can be started again."""
        return [self._plane.guests[name] for name in self._guests() if name in self._plane.guests]

    def process(self, machine: str) -> Process:
        """The kubelet of a machine."""
        return self._plane.guests[_guest(machine)]

    def cpu_manager_state(self, machine: str) -> Mapping[str, Any]:
        """The checkpoint of a kubelet's CPU manager: `entries` has the exclusive CPUs by pod uid and container."""
        return self._checkpoint(machine, "cpu_manager_state")

    def prepared(self) -> dict[str, Mapping[str, Any]]:
        """The claims that DRA drivers have prepared and not unprepared yet, by uid: node, driver, claim, devices."""
        found: dict[str, Mapping[str, Any]] = {}
        for event in self.journal():
            if event["event"] == "prepared":
                found[event["uid"]] = event
            elif event["event"] == "unprepared":
                found.pop(event["uid"], None)
        return found

    def memory_manager_state(self, machine: str) -> Mapping[str, Any]:
        """The checkpoint of a kubelet's memory manager, likewise."""
        return self._checkpoint(machine, "memory_manager_state")

    def journal(self) -> list[dict[str, Any]]:
        """What the kubelets asked of the runtime and the device plugins so far."""
        whole_lines = self._plane.guests[RUNTIME].log.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in whole_lines if line.startswith(b"{")]

    def admitted(self) -> list[dict[str, Any]]:
        """What the containers of each pod got, as the simulated kubelets' journal has it, in the order of their start.

        A container is in it once it was created.
        """
        pods: dict[str, dict[str, Any]] = {}
        for event in self.journal():
            if event["event"] == "created":
                pod = {name: event[name] for name in ("node", "pod", "uid")}
                containers = pods.setdefault(event["uid"], {**pod, "containers": []})["containers"]
                containers.append(self._given(self._machines[event["node"]], event))
        return list(pods.values())

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind so far, as the simulated kubelets' journal has them. Rejected pods are in none."""
        return self.admitted() if kind == "admitted" else [each for each in self.journal() if each["event"] == kind]

    def start(self) -> None:
        """Start all, and wait until every Node is ready."""
        self._start_runtime()
        for machine in self._machines:
            self._start_kubelet(machine)
        self._plane.wait_for("the kubelets' Nodes ready", self.ready, READY_SECONDS)

    def restart(self, name: str) -> None:
        """Kill a program, named as its process, and start it again."""
        self._plane.guests[name].kill()
        if name == RUNTIME:
            self._start_runtime()
        else:
            self._start_kubelet(name.removeprefix(_guest("")))

    def reinstall(self, machine: SimulatedMachine) -> None:
        """Put another machine in the place of the one of this name, and start its kubelet, which has no past.

        Of the old machine, the kubelet must have ended, and the Node and its pods must be gone.
        """
        for left in (self.state / machine.name).iterdir():
            if left.name not in _RUNTIMES:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        for folder in ("hardware", "log"):
            shutil.rmtree(self._folder / folder / machine.name)
        self._machines[machine.name] = machine
        self._write(machine)
        self._start_kubelet(machine.name)

    def ready(self) -> bool:
        """Whether every Node is ready and shows its devices. Raises `ProcessEndedError` if a program has ended."""
        for process in self.processes:
            process.require_running()
        nodes = {node["metadata"]["name"]: node["status"] for node in self._plane.api.get(NODES)["items"]}
        return all(
            name in nodes
            and any(each["type"] == "Ready" and each["status"] == "True" for each in nodes[name]["conditions"])
            and all(
                nodes[name]["allocatable"].get(resource) == str(len(devices))
                for resource, devices in machine.description()["devices"].items()
            )
            for name, machine in self._machines.items()
        ) and self._published() >= {(name, driver) for name, each in self._machines.items() for driver in each.slices}

    def _published(self) -> set[tuple[str, str]]:
        """Node and driver of each ResourceSlice. None is asked for where no machine has any: old versions know none."""
        if not any(machine.slices for machine in self._machines.values()):
            return set()
        specs = [each["spec"] for each in self._plane.api.get(SLICES)["items"]]
        return {(spec["nodeName"], spec["driver"]) for spec in specs}

    def stop(self) -> None:
        """End the programs, the kubelets first."""
        for name in reversed(self._guests()):
            if process := self._plane.guests.pop(name, None):
                process.kill()

    def _guests(self) -> list[str]:
        return [RUNTIME, *map(_guest, self._machines)]

    def _write(self, machine: SimulatedMachine) -> None:
        """The folders of a machine, its configuration and its hardware."""
        state, log = self.state / machine.name, self._folder / "log" / machine.name
        for folder in (state / "device-plugins", log):
            folder.mkdir(parents=True)
        # JSON is valid YAML.
        (state / KUBELET_CONFIG).write_text(json.dumps(kubelet_config(machine, self._kubelet_version), indent=1))
        config = json.loads(self._plane.kubeconfig.read_text())
        for user in config["users"]:  # the Node authorizer and NodeRestriction apply
            user["user"] |= {"as": f"system:node:{machine.name}", "as-groups": ["system:nodes", "system:authenticated"]}
        (state / _KUBECONFIG).touch(mode=0o600)
        (state / _KUBECONFIG).write_text(json.dumps(config))
        hardware = write_hardware(machine, self._folder / "hardware" / machine.name)
        self._places[machine.name] = {**hardware, _ROOT: state, "/var/log": log}

    def _start_runtime(self) -> None:
        description = self._folder / "machines.json"
        description.write_text(json.dumps([machine.description() for machine in self._machines.values()]))
        for machine in self._machines:  # of the last one, if it was killed
            (self.state / machine / "cri.sock").unlink(missing_ok=True)
        self._plane.guests[RUNTIME] = Process(
            RUNTIME,
            [self._plane.assets[RUNTIME], f"--machines={description}", f"--kubeconfig={self._plane.kubeconfig}"],
            self._folder / f"{RUNTIME}.log",
            cwd=self.state,
        )
        self._plane.wait_for(f"{RUNTIME} ready", lambda: any(event["event"] == "ready" for event in self.journal()))

    def _start_kubelet(self, machine: str) -> None:
        name = _guest(machine)
        labels = ",".join(f"{key}={value}" for key, value in self._machines[machine].labels.items())
        self._plane.guests[name] = Process(
            name,
            [
                *on_machine(self._places[machine]),
                self._plane.assets["kubelet"],
                f"--config={_ROOT}/{KUBELET_CONFIG}",
                f"--kubeconfig={_ROOT}/{_KUBECONFIG}",
                f"--hostname-override={machine}",
                f"--node-ip={_address()}",
                f"--node-labels={labels}",
                *_gates(self._kubelet_version),
                "--v=2",
            ],
            self._folder / f"{name}.log",
        )

    def _checkpoint(self, machine: str, name: str) -> Mapping[str, Any]:
        content: Mapping[str, Any] = json.loads((self.state / machine / name).read_text())
        return content

    def _given(self, machine: SimulatedMachine, event: Mapping[str, Any]) -> dict[str, Any]:
        """What a container got, in the form of the simulated kubelets."""
        cpus: dict[str, int] = {}
        for cpu in cpu_list(event.get("cpus", "")):
            numa = str(cpu // machine.cpus)
            cpus[numa] = cpus.get(numa, 0) + 1
        near = {
            resource: {device: ",".join(map(str, numa)) or "none" for device, numa in devices.items()}
            for resource, devices in machine.description()["devices"].items()
        }
        devices: dict[str, dict[str, int]] = {}
        for resource, ids in event["devices"].items():
            for device in ids:
                place = near[resource][device]
                devices.setdefault(resource, {}).setdefault(place, 0)
                devices[resource][place] += 1
        return {
            "name": event["container"],
            "cpusPerNuma": cpus,
            "cpuList": event.get("cpus", ""),
            "memory": event.get("memory", []),
            "cpusetMems": event["cpusetMems"],
            "devices": devices,
            "deviceIDs": event["devices"],
        }


@contextlib.contextmanager
def real_kubelets(plane: ControlPlane, machines: Sequence[SimulatedMachine]) -> Iterator[RealKubelets]:
    """Run the kubelets of these machines. Raises `ImpossibleError` where they cannot run.

    No exporter runs beside them: tests/neighbours has those of other projects.
    """
    require_possible(len(machines))
    with tempfile.TemporaryDirectory(prefix="machines-", dir=plane.folder) as folder:
        running = RealKubelets(plane, machines, Path(folder))
        try:
            running.start()
            yield running
        finally:
            running.stop()
            delete_nodes(plane.api, [machine.name for machine in machines])


def on_machine(places: Mapping[str, Path]) -> list[str]:
    """The command in front of a program that lets it see these files and folders in these places.

    /var/lib becomes an empty folder first, because a host need not have /var/lib/kubelet.
    """
    mounts = [
        f"mount -t tmpfs tmpfs {Path(_ROOT).parent}",
        f"mkdir {_ROOT}",
        *(f"mount --bind {shlex.quote(str(source))} {place}" for place, source in places.items()),
    ]
    return [*namespaces(), *_SHELL, "; ".join([*mounts, 'cd /; exec "$0" "$@"'])]


def kubelet_config(machine: SimulatedMachine, version: tuple[int, ...] = ()) -> dict[str, Any]:
    """The KubeletConfiguration of a machine. version: of the kubelet, for what not all know; (): none of that."""
    description = machine.description()
    static_memory = description["memoryPolicy"] == "Static"
    reserved = {"memory": f"{RESERVED_KIB}Ki"}
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "featureGates": {"KubeletInUserNamespace": True},
        "containerRuntimeEndpoint": f"unix://{_ROOT}/cri.sock",
        "volumePluginDir": f"{_ROOT}/volume-plugins",
        "maxPods": machine.max_pods,
        # The host is another one than the machine: no cgroups, no iptables, and its swap and fullness are no concern.
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "resolvConf": "",
        "clusterDNS": ["10.0.0.10"],  # of the Services' addresses; nothing answers there, nothing asks
        "evictionHard": dict.fromkeys(
            ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"),
            "0%",
        ),
        "volumeStatsAggPeriod": "-1s",
        # No server: exec and logs have nothing behind them, and no port is needed.
        "enableServer": False,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        # NUMA
        "cpuManagerPolicy": machine.cpu_manager,
        "cpuManagerPolicyOptions": dict(machine.cpu_options),
        "reservedSystemCPUs": machine.reserved_cpus,
        "memoryManagerPolicy": description["memoryPolicy"],
        "systemReserved": reserved,
        "topologyManagerPolicy": machine.policy,
        "topologyManagerScope": machine.scope,
        "topologyManagerPolicyOptions": dict(machine.options),
    }
    if static_memory:
        config["reservedMemory"] = [{"numaNode": 0, "limits": reserved}]
    if version >= (1, 31):  # else it is unknown; cgroup v1 is refused from 1.35 on
        config["failCgroupV1"] = False
    return config


def _gates(version: tuple[int, ...]) -> list[str]:
    """Gates that not all versions know: NFD reads the KubeletConfiguration, and ends at one that it does not know."""
    # Without cgroups a kubelet with this one crashes on pod-level resources.
    return ["--feature-gates=InPlacePodLevelResourcesVerticalScaling=false"] if version >= (1, 35) else []


def _guest(machine: str) -> str:
    return f"kubelet-{machine}"


def _version(kubelet: Path) -> tuple[int, ...]:
    told = subprocess.run([kubelet, "--version"], capture_output=True, text=True, check=True).stdout
    return parse_version(told)[:2]


def _address() -> str:
    """The host's address by its default route: a kubelet refuses loopback. Without a flag it would ask the DNS."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        address: str = probe.getsockname()[0]
        return address
