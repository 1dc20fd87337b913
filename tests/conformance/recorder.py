"""Plays random machines on real kubelets, and records what each answers, in the form of the golden kubelet cases.

1. The machines' kubelets are started, and each gets its pods one after the other; the machines play side by side.
2. A pod has an answer when it runs or was rejected. Then what it got is in the kubelet's checkpoints, which the runtime
   reads when a container is created, and which devices it got is known from their plugin.
3. Before a pod another one may be deleted, or the kubelet be ended by a signal and started again.

What a pod leaves that was rejected half-way is freed at the next admission, its CPUs perhaps some seconds earlier; and
with what another pod leaves in random order (a Go map), which may decide what memory is free where. So after such a
pod nothing is deleted, and no kubelet is restarted.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.api import ApiError
from tests.cluster.real_kubelets import RealKubelets, real_kubelets
from tests.conformance.reference import AFFINITY, ALLOCATION, SMT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.cluster.control_plane import ControlPlane
    from tests.conformance.random_machines import Play, Step

Case = dict[str, Any]

# A kubelet says so of every device that its plugin has offered, and of the pods that it finds when it starts.
_DEVICES_KNOWN: Final = b"Processed device updates for resource"
_PODS_FOUND: Final = b"SyncLoop ADD"
_REJECTIONS: Final = {AFFINITY, ALLOCATION, SMT}
_OUT_OF: Final = "OutOf"
_ANSWERED: Final = {"Running", "Succeeded", "Failed"}
# An answer takes 1 s, and 1 s more for each init container; a merge of all hints of 8 NUMA nodes some seconds.
_ANSWER_SECONDS: Final = 120.0


def record(plane: ControlPlane, plays: Sequence[Play], name: str, tell: Callable[[str], None]) -> list[Case]:
    """Play these machines. Raises `ImpossibleError` where no kubelet can run.

    name: of the namespace in which it happens, which is created for it; the cases' ids begin with it.
    """
    stopped = threading.Event()
    with real_kubelets(plane, [play.machine for play in plays]) as fleet, ThreadPoolExecutor(len(plays)) as pool:
        plane.create_namespace(name)
        try:
            recorders = [_Recorder(plane, fleet, play, name, stopped) for play in plays]
            played = [pool.submit(recorder.run) for recorder in recorders]
            cases = []
            for future in played:
                cases.append(future.result())
                answers = cases[-1]["expect"]["pods"]
                tell(f"{cases[-1]['id']}: {len(answers)} pods, {sum(each['admit'] for each in answers)} admitted")
            return cases
        finally:
            stopped.set()
            plane.delete_namespace(name)


class _StoppedError(Exception):
    """Another machine failed, or the program is to end."""


class _Recorder:
    """One machine while it is played."""

    def __init__(
        self, plane: ControlPlane, fleet: RealKubelets, play: Play, name: str, stopped: threading.Event
    ) -> None:
        self._plane, self._fleet, self._play, self._stopped = plane, fleet, play, stopped
        self._pods = f"/api/v1/namespaces/{name}/pods"
        self._node = play.machine.name
        self._alive: set[str] = set()
        """The names of the pods that were admitted and not deleted."""
        status = plane.api.get(f"/api/v1/nodes/{self._node}")["status"]
        self._case: Case = {
            "id": f"{name}-{play.machine.name}",
            "machine": play.machine.description(),
            "wholeKubelet": True,
            "node": {"allocatable": status["allocatable"]},
            "kubelet": status["nodeInfo"]["kubeletVersion"],
            "pods": [],
            "remove": {},
            "restart": {},
            "lost": {},
            "deviceIDs": {},
            "expect": {"pods": []},
        }

    def run(self) -> Case:
        self._wait_for_devices(0)
        answers = self._case["expect"]["pods"]
        for step in self._play.steps:
            name = step.pod["metadata"]["name"]
            half_way = bool(answers) and answers[-1].get("reason") == ALLOCATION
            if step.remove and not half_way:
                self._note_lost()
                if self._exists(step.remove):
                    self._delete(step.remove)
                self._case["remove"][name] = [step.remove]
            if step.restart and not half_way and self._starts_again():
                self._note_lost()
                self._restart(signal.Signals[step.restart])
                self._case["restart"][name] = step.restart
            answers.append(self._answer(step))
        self._note_lost()
        return self._case

    def _starts_again(self) -> bool:
        """Whether the kubelet would start: with strict-cpu-reservation none does while pods hold all CPUs."""
        if self._case["machine"]["cpuPolicy"] == "none":
            return True
        return bool(self._fleet.cpu_manager_state(self._node)["defaultCpuSet"])

    def _note_lost(self) -> None:
        """Note the pods that the kubelet's last start ended: it admits all pods again, and may reject one that runs.

        It says so in an Event; the status may show the pod as running for as long as its containers have not ended. So
        it is deleted: else the next start would admit it as if it were new. Later pods have an answer by then.
        """
        if not self._case["restart"]:
            return
        rejected = {
            event["involvedObject"]["name"]: event["reason"]
            for event in self._plane.api.get(self._pods.removesuffix("pods") + "events")["items"]
            if event["reason"].startswith(_OUT_OF) or event["reason"] in _REJECTIONS
        }
        for name in sorted(self._alive & rejected.keys()):
            answer = next(each for each in self._case["expect"]["pods"] if each["pod"] == name)
            answer["lost"] = rejected[name]
            self._case["lost"].setdefault([*self._case["restart"]][-1], []).append(name)
            self._delete(name)

    def _answer(self, step: Step) -> dict[str, Any]:
        """Create the pod and wait for the kubelet's answer, in the form of the golden cases."""
        name = step.pod["metadata"]["name"]
        bound = {**step.pod, "spec": {**step.pod["spec"], "nodeName": self._node}}
        created = self._plane.api.create(self._pods, bound)
        uid = created["metadata"]["uid"]
        namespace = created["metadata"]["namespace"]
        self._case["pods"].append({**bound, "metadata": {"name": name, "namespace": namespace, "uid": uid}})
        status: dict[str, Any] = self._wait_for(f"the answer for {name}", partial(self._answered, name))
        if status["phase"] == "Failed":
            message = status["message"].removeprefix("Pod was rejected: ")
            return {"pod": name, "admit": False, "reason": status["reason"], "message": message}
        self._alive.add(name)
        (containers,) = (pod["containers"] for pod in self._fleet.admitted() if pod["uid"] == uid)
        self._case["deviceIDs"][uid] = {each["name"]: each.pop("deviceIDs") for each in containers}
        for each in containers:
            del each["cpusetMems"]  # follows from the blocks of memory
        return {"pod": name, "admit": True, "containers": containers}

    def _answered(self, name: str) -> dict[str, Any] | None:
        status: dict[str, Any] = self._plane.api.get(f"{self._pods}/{name}")["status"]
        return status if status["phase"] in _ANSWERED else None

    def _delete(self, name: str) -> None:
        self._plane.api.delete(f"{self._pods}/{name}")
        self._wait_for(f"the end of {name}", lambda: not self._exists(name))
        self._alive.discard(name)

    def _exists(self, name: str) -> bool:
        try:
            self._plane.api.get(f"{self._pods}/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def _restart(self, number: signal.Signals) -> None:
        """End the kubelet and start it again; return when it has admitted its pods again and knows its devices."""
        process = self._fleet.process(self._node)
        log = process.log.read_bytes()
        os.kill(process.pid, number)
        process.wait(_ANSWER_SECONDS)
        self._fleet.restart(process.name)
        self._wait_for_devices(log.count(_DEVICES_KNOWN))
        self._wait_for_log("the pods that it finds", _PODS_FOUND, log.count(_PODS_FOUND) + 1)

    def _wait_for_devices(self, before: int) -> None:
        kinds = len(self._case["machine"]["devices"])
        self._wait_for_log("its devices", _DEVICES_KNOWN, before + kinds)

    def _wait_for_log(self, what: str, text: bytes, times: int) -> None:
        """Wait until the kubelet's log has a text so many times."""
        process = self._fleet.process(self._node)
        self._wait_for(f"{process.name} to know {what}", lambda: process.log.read_bytes().count(text) >= times)

    def _wait_for(self, what: str, condition: Callable[[], Any]) -> Any:
        def met() -> Any:
            if self._stopped.is_set():
                raise _StoppedError
            self._fleet.process(self._node).require_running()
            return condition()

        return self._plane.wait_for(what, met, _ANSWER_SECONDS)
