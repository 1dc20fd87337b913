"""Random devices, claims and pods, from a seed alone: what kube-scheduler's own allocator is asked about.

A case is a cluster of one to three nodes at the moment when a pod with claims comes. All its objects are such as the
API server takes: `allocators/main.go` has the form of a case. Each case draws the features that it uses, so that most
cases have few of them and all pairs occur.

    outside   what a case has beyond `exactly` requests, known attributes and simple comparisons (OUTSIDE)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Raw = dict[str, Any]

GPU, NIC = "gpu.example.com", "nic.example.com"
NUMA, ROOT = "resource.kubernetes.io/numaNode", "resource.kubernetes.io/pcieRoot"
_MODELS: Final = ("a100", "b200", "h100")
_MEMORY: Final = ("40Gi", "80Gi", "96Gi")

OUTSIDE: Final = ("admin", "binding", "cel", "counters", "error", "first", "shares")
"""What is rarer, and may be left to kube-scheduler.

admin: adminAccess; binding: devices whose driver confirms; cel: expressions beyond comparisons; counters: shared
counters; error: a selector that fails on some device, or a class that is not there; first: firstAvailable; shares:
devices for several claims.
"""
_INSIDE: Final = ("all", "distinct", "generations", "held", "match", "rules", "scopes", "several", "taints")
# A case draws each of its features with these chances: often enough that pairs occur, seldom enough that the reason of
# an answer can be seen.
_CHANCE_INSIDE: Final = 0.3
_CHANCE_OUTSIDE: Final = 0.06


def draw_cases(seed: int, count: int) -> Iterator[Raw]:
    """The cases of a seed. A case is the same whatever number is drawn."""
    for number in range(count):
        yield _Draw(Random(f"{seed}/{number}")).case(f"claims-{seed}-{number}")  # noqa: S311 - reproducible, not secret


@dataclass
class _Draw:
    random: Random
    features: frozenset[str] = frozenset()
    model: str = ""
    """What most GPUs are, and what requests ask for most often."""
    nodes: list[Raw] = field(default_factory=list)
    slices: list[Raw] = field(default_factory=list)
    classes: list[Raw] = field(default_factory=list)
    claims: list[Raw] = field(default_factory=list)

    def case(self, name: str) -> Raw:
        inside = {one for one in _INSIDE if self.random.random() < _CHANCE_INSIDE}
        self.features = frozenset(inside | {one for one in OUTSIDE if self.random.random() < _CHANCE_OUTSIDE})
        self.model = self.random.choice(_MODELS)
        self.nodes = [
            {"metadata": {"name": f"n{number}", "labels": {"zone": self.random.choice("ab")}}}
            for number in range(self.random.choice((1, 2, 2, 3)))
        ]
        for node in self.nodes:
            self._node_pools(node["metadata"]["name"])
        if "scopes" in self.features:
            self._wide_pool()
        self.random.shuffle(self.slices)
        self._classes()
        if "held" in self.features:
            self._held()
        pod = self._pod()
        rules = self._rules() if "rules" in self.features else []
        return {
            "id": name,
            "outside": sorted(self.features & set(OUTSIDE)),
            "nodes": self.nodes,
            "slices": self.slices,
            "classes": self.classes,
            "rules": rules,
            "claims": self.claims,
            "pod": pod,
        }

    # ---- slices

    def _node_pools(self, node: str) -> None:
        """The devices of a machine: GPUs in one pool, NICs in another."""
        gpus = [self._gpu(index) for index in range(self.random.choice((2, 4, 4, 6, 8)))]
        if "counters" in self.features:
            self._pool(GPU, node, {"nodeName": node}, *self._partitions(gpus))
        else:
            self._pool(GPU, node, {"nodeName": node}, gpus)
        if not self._seldom():
            nics = [self._nic(index) for index in range(self.random.randint(2, 4))]
            self._pool(NIC, node, {"nodeName": node}, nics)

    def _gpu(self, index: int) -> Raw:
        attributes: Raw = {
            "model": {"string": self.model if self.random.random() < 0.8 else self.random.choice(_MODELS)},
            "index": {"int": index},
            "driverVersion": {"version": self.random.choice(("1.2.0", "1.10.3", "2.0.0-rc.1"))},
            NUMA: {"int": self.random.randrange(2)},
        }
        if self._seldom():
            attributes[f"{GPU}/mig"] = {"bool": self.random.random() < 0.5}
        if not self._seldom():
            attributes[ROOT] = {"string": f"pci0000:{self.random.randrange(3)}0"}
        if "error" in self.features and self._seldom():
            del attributes["model"]
        device: Raw = {
            "name": f"gpu-{index}",
            "attributes": attributes,
            "capacity": {"memory": {"value": self.random.choice(_MEMORY)}},
        }
        if "shares" in self.features and self._often():
            device["allowMultipleAllocations"] = True
            if self._often():
                device["capacity"]["memory"]["requestPolicy"] = self._policy()
        return self._odd(device)

    def _nic(self, index: int) -> Raw:
        attributes: Raw = {"speed": {"int": self.random.choice((100, 200, 400))}}
        if not self._seldom():
            attributes[NUMA] = {"int": self.random.randrange(2)}
        if not self._seldom():
            attributes[ROOT] = {"string": f"pci0000:{self.random.randrange(3)}0"}
        return self._odd({"name": f"nic-{index}", "attributes": attributes})

    def _odd(self, device: Raw) -> Raw:
        """The device with what any device may have."""
        if "taints" in self.features and self._seldom():
            device["taints"] = [self._taint()]
        if "binding" in self.features and self._seldom():
            device |= {"bindsToNode": True, "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
        return device

    def _policy(self) -> Raw:
        if self.random.random() < 0.5:
            return {"default": "10Gi", "validValues": ["10Gi", "20Gi", "40Gi"]}
        return {"default": "10Gi", "validRange": {"min": "5Gi", "step": "5Gi", "max": "40Gi"}}

    def _taint(self) -> Raw:
        effect = self.random.choice(("NoSchedule", "NoExecute", "NoExecute", "None"))
        return {"key": self.random.choice(("broken", "team")), "value": self.random.choice("xy"), "effect": effect}

    def _partitions(self, gpus: list[Raw]) -> tuple[list[Raw], list[Raw]]:
        """The GPUs, each with two halves that share its memory, and the counters."""
        devices, sets = [], []
        for gpu in gpus[:3]:
            name = f"{gpu['name']}-memory"
            sets.append({"name": name, "counters": {"memory": {"value": "80Gi"}}})
            for part, amount in (("", "80Gi"), ("-0", "40Gi"), ("-1", "40Gi")):
                used = {"counterSet": name, "counters": {"memory": {"value": amount}}}
                device = {**gpu, "name": gpu["name"] + part, "consumesCounters": [used]}
                devices.append({**device, "capacity": {"memory": {"value": amount}}})
        return devices, sets

    def _pool(self, driver: str, pool: str, scope: Raw, devices: Sequence[Raw], sets: Sequence[Raw] = ()) -> None:
        """Publish a pool: in one or two slices, with what a driver leaves behind that renews it."""
        cut = self.random.randint(0, len(devices)) if self.random.random() < 0.4 else len(devices)
        parts: list[Raw] = [{"devices": list(part)} for part in (devices[:cut], devices[cut:]) if part]
        if sets:
            parts.append({"sharedCounters": list(sets)})
        generation, count, fate = 1, len(parts), ""
        if "generations" in self.features and self._often():
            generation = 2
            fate = self.random.choice(("old", "old", "old", "incomplete", "renewed", "double"))
        if fate == "old":
            own = {"allNodes": True} if "perDeviceNodeSelection" in scope else {}
            self._slice(driver, pool, scope, 1, 1, {"devices": [{**self._gpu(9), **own}]})
        elif fate == "incomplete":
            count += 1
        elif fate == "renewed":  # the first slice of the next generation is for another node
            self._slice(driver, pool, {"nodeName": "elsewhere"}, 3, 1, {"devices": [self._gpu(9)]})
        elif fate == "double" and not sets:
            count += 1
            parts.append({"devices": [devices[0]]})
        for part in parts:
            self._slice(driver, pool, scope, generation, count, part)

    def _slice(self, driver: str, pool: str, scope: Raw, generation: int, count: int, content: Raw) -> None:
        name = f"{self.random.choice('xyz')}{len(self.slices)}"
        about = {"name": pool, "generation": generation, "resourceSliceCount": count}
        self.slices.append({"metadata": {"name": name}, "spec": {"driver": driver, "pool": about, **scope, **content}})

    def _wide_pool(self) -> None:
        """Devices that more than one node reaches."""
        driver = self.random.choice((GPU, NIC))
        make = self._gpu if driver == GPU else self._nic
        devices = [make(index) for index in range(self.random.randint(1, 4))]
        kind = self.random.choice(("all", "selector", "selector", "device"))
        if kind == "all":
            self._pool(driver, "fabric", {"allNodes": True}, devices)
        elif kind == "selector":
            self._pool(driver, "fabric", {"nodeSelector": self._selector()}, devices)
        else:
            self._pool(driver, "fabric", {"perDeviceNodeSelection": True}, [one | self._scope() for one in devices])

    def _scope(self) -> Raw:
        return self.random.choice(
            ({"nodeName": "n0"}, {"nodeName": "n1"}, {"allNodes": True}, {"nodeSelector": self._selector()})
        )

    def _selector(self) -> Raw:
        operator, zone = self.random.choice(("In", "In", "NotIn")), self.random.choice("ab")
        requirement = {"key": "zone", "operator": operator, "values": [zone]}
        return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}

    # ---- classes, rules

    def _classes(self) -> None:
        self._class("gpu", f'device.driver == "{GPU}"')
        self._class("nic", f'device.driver == "{NIC}"')
        large = f'device.capacity["{GPU}"].memory.compareTo(quantity("80Gi")) >= 0'
        self._class("large", f'device.driver == "{GPU}"', large)
        self._class("any")

    def _class(self, name: str, *expressions: str) -> None:
        spec = {"selectors": [{"cel": {"expression": each}} for each in expressions]} if expressions else {}
        self.classes.append({"metadata": {"name": name}, "spec": spec})

    def _rules(self) -> list[Raw]:
        rules = []
        for number in range(self.random.randint(1, 2)):
            selector: Raw = {"driver": self.random.choice((GPU, NIC))}
            if self._often():
                selector["pool"] = self.random.choice((*(node["metadata"]["name"] for node in self.nodes), "fabric"))
            if self._often():
                selector["device"] = self.random.choice(("gpu-0", "gpu-1", "nic-0"))
            spec = {"deviceSelector": selector, "taint": self._taint()}
            rules.append({"metadata": {"name": f"rule-{number}"}, "spec": spec})
        return rules

    # ---- claims

    def _held(self) -> None:
        """Claims that have devices already: of other pods, or shared by the pod that comes."""
        devices = [
            (slice_["spec"], device)
            for slice_ in self.slices
            for device in slice_["spec"].get("devices", ())
            if slice_["spec"]["pool"]["generation"] > 1 or "generations" not in self.features
        ]
        self.random.shuffle(devices)
        for number in range(self.random.randint(1, 3)):
            taken, devices = devices[: self.random.randint(1, 2)], devices[2:]
            if not taken:
                return
            self._allocated(f"held-{number}", taken)

    def _allocated(self, name: str, taken: Sequence[tuple[Raw, Raw]]) -> None:
        results = []
        for number, (spec, device) in enumerate(taken):
            result = {"request": "r0", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
            if "admin" in self.features and self._seldom():
                result["adminAccess"] = True
            elif device.get("allowMultipleAllocations"):
                result["shareID"] = f"00000000-0000-4000-8000-{len(self.claims):06}{number:06}"
                result["consumedCapacity"] = {"memory": self.random.choice(("10Gi", "20Gi", "40Gi"))}
            results.append(result)
        allocation: Raw = {"devices": {"results": results}}
        node = next((spec["nodeName"] for spec, _ in taken if "nodeName" in spec), "")
        if node:
            field_ = {"key": "metadata.name", "operator": "In", "values": [node]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field_]}]}
        exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": len(results)}
        claim = self._claim(name, [{"name": "r0", "exactly": exactly}])
        claim["status"] = {"allocation": allocation}

    def _pod(self) -> list[str]:
        """The claims of the pod that comes, in its order."""
        number = self.random.choice((1, 2, 2, 3)) if "several" in self.features else 1
        names = [f"claim-{index}" for index in range(number)]
        for name in names:
            requests = [self._request(f"r{index}") for index in range(self.random.choice((1, 1, 1, 2, 2, 3)))]
            claim = self._claim(name, requests)
            if constraints := self._constraints(requests):
                claim["spec"]["devices"]["constraints"] = constraints
        if "held" in self.features and self.claims[0]["metadata"]["name"] == "held-0" and self._seldom():
            names.insert(self.random.randint(0, len(names)), "held-0")
        return names

    def _claim(self, name: str, requests: list[Raw]) -> Raw:
        metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
        claim: Raw = {"metadata": metadata, "spec": {"devices": {"requests": requests}}}
        self.claims.append(claim)
        return claim

    def _request(self, name: str) -> Raw:
        if "first" in self.features and self._often():
            number = self.random.randint(1, 3)
            return {"name": name, "firstAvailable": [{"name": f"s{one}", **self._exactly()} for one in range(number)]}
        exactly = self._exactly()
        if "admin" in self.features and self._often():
            exactly["adminAccess"] = True
        return {"name": name, "exactly": exactly}

    def _exactly(self) -> Raw:
        kind = self.random.choice(("gpu", "gpu", "gpu", "nic", "nic", "large", "any"))
        if "error" in self.features and self.random.random() < 0.1:
            kind = "absent"
        exactly: Raw = {"deviceClassName": kind, "allocationMode": "ExactCount", "count": 1}
        if "all" in self.features and self._seldom():
            exactly["allocationMode"] = "All"
            del exactly["count"]
        else:
            exactly["count"] = self.random.choice((1, 1, 1, 1, 2, 2, 3))
        if expressions := [self._expression(kind) for _ in range(self.random.choice((0, 0, 0, 1, 1, 2)))]:
            exactly["selectors"] = [{"cel": {"expression": each}} for each in expressions]
        if "taints" in self.features and self._often():
            exactly["tolerations"] = [self._toleration()]
        if "shares" in self.features and kind != "nic" and self._often():
            exactly["capacity"] = {"requests": {"memory": self.random.choice(("7Gi", "20Gi", "40Gi", "64Gi"))}}
        return exactly

    def _toleration(self) -> Raw:
        toleration: Raw = self.random.choice(
            (
                {"operator": "Exists"},
                {"key": "broken", "operator": "Exists"},
                {"key": "team", "operator": "Equal", "value": self.random.choice("xy")},
            )
        )
        return toleration | ({"effect": "NoSchedule"} if self._seldom() else {})

    def _constraints(self, requests: Sequence[Raw]) -> list[Raw]:
        constraints: list[Raw] = []
        if "match" in self.features and not self._seldom():
            constraints.append({"matchAttribute": self.random.choice((NUMA, NUMA, ROOT, f"{GPU}/model"))})
        if "distinct" in self.features and self._often():
            attribute = self.random.choice((ROOT, f"{GPU}/index", f"{GPU}/model"))
            constraints.append({"distinctAttribute": attribute})
        for constraint in constraints:
            if self._often():
                continue
            names = self.random.sample(requests, self.random.randint(1, len(requests)))
            constraint["requests"] = [self._part(one) for one in names]
        return constraints

    def _part(self, request: Raw) -> str:
        """The name of a request, or of one of its subrequests."""
        if "firstAvailable" in request and self._seldom():
            return f"{request['name']}/{self.random.choice(request['firstAvailable'])['name']}"
        return str(request["name"])

    # ---- expressions

    def _expression(self, kind: str) -> str:
        """A selector that compiles; without `error` it fails on no device of the classes that it is used with."""
        gpu, nic = f'device.attributes["{GPU}"]', f'device.attributes["{NIC}"]'
        choices = self._gpu_comparisons(gpu) if kind in {"gpu", "large"} else self._safe_comparisons(gpu, nic)
        if kind == "nic":
            choices += [f"{nic}.speed >= 200", f"{nic}.speed in [100, 400]", f"{nic}.speed != 100"]
        if "cel" in self.features:
            choices = self._others(gpu, choices)
        if "error" in self.features and self._often():
            choices = self._failing(gpu)
        one, other = self.random.choice(choices), self.random.choice(choices)
        return self.random.choice((one, one, one, f"{one} && {other}", f"{one} || {other}", f"!({one})"))

    def _gpu_comparisons(self, gpu: str) -> list[str]:
        memory, size = f'device.capacity["{GPU}"].memory', self.random.choice(_MEMORY[:2])
        model = self.model if self._often() else self.random.choice(_MODELS)
        return [
            f'{gpu}.model == "{model}"',
            f'"{model}" == {gpu}.model',
            f"{gpu}['model'] != '{model}'",
            f'{gpu}.model in ["a100", "{model}"]',
            f"{gpu}.index < {self.random.randint(2, 5)}",
            f"{gpu}.index >= 1 && {gpu}.index <= 3",
            f'{memory}.compareTo(quantity("{size}")) >= 0',
            f'{memory}.isGreaterThan(quantity("{size}")) || {memory} == quantity("40Gi")',
            f'device.attributes["resource.kubernetes.io"].numaNode == {self.random.randrange(2)}',
            f'"mig" in {gpu} && {gpu}.mig',
            f'device.driver == "{GPU}" && ({gpu}.index == 0 || {gpu}.index > 2)',
            f'has({gpu}.mig) && {gpu}.mig == true',
        ]  # fmt: skip

    def _safe_comparisons(self, gpu: str, nic: str) -> list[str]:
        return [
            f'device.driver == "{self.random.choice((GPU, NIC))}"',
            f'device.driver != "{NIC}"',
            f'device.driver in ["{GPU}", "{NIC}"]',
            f'"index" in {gpu} && {gpu}.index < 2',
            f'"speed" in {nic}',
            f'has({gpu}.index) || has({nic}.speed)',
            '"pcieRoot" in device.attributes["resource.kubernetes.io"]',
        ]  # fmt: skip

    def _others(self, gpu: str, choices: list[str]) -> list[str]:
        return [
            'device.driver.startsWith("gpu")',
            'device.driver.matches("^(gpu|nic)[.]")',
            f'device.attributes.exists(domain, domain == "{GPU}")',
            f'cel.bind(own, {gpu}, "index" in own && own.index % 2 == 0)',
            f'"driverVersion" in {gpu} && {gpu}.driverVersion.isGreaterThan(semver("1.9.0"))',
            f'"index" in {gpu} ? {gpu}.index == 1 : false',
            "size(device.capacity) > 0",
            self.random.choice(choices),
        ]  # fmt: skip

    def _failing(self, gpu: str) -> list[str]:
        """On some devices: a map lacks the key, or no comparison is defined for the types."""
        return [
            f'{gpu}.model == "{self.random.choice(_MODELS)}"',
            f"{gpu}.mig",
            f'{gpu}.index < 2 || {gpu}.mig',
            f'{gpu}.mig || {gpu}.index < 2',
            f'{gpu}.model < 3',
            f'{gpu}.index == "1"',
            f'device.capacity["{GPU}"].cores.isGreaterThan(quantity("1"))',
        ]  # fmt: skip

    def _often(self) -> bool:
        return self.random.random() < 0.5

    def _seldom(self) -> bool:
        return self.random.random() < 0.25
