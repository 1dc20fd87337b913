"""What kube-scheduler's own device allocator answers to random cases, and the answer of ours beside it.

1. `find_allocator` builds the allocator of a version from `allocators/VERSION`, a Go module that pins it, as the
   control plane is built: once, then from the user's cache.
2. `answered` asks it about cases and adds the answers: a case of a golden file. Selectors that a version does not
   compile are left out: no API server takes them.
3. `check` compares pods with claims (random_claims.py), node by node:
   - a node that upstream can allocate on is never excluded;
   - a node that it cannot allocate on is never chosen;
   - where it can, and we choose devices, they are the same;
   - inside of what we decide (random_claims.OUTSIDE is outside), we do not leave it open.
4. `near` asks for devices on one NUMA node, as aligned claims get them. Where we choose some, upstream's allocator is
   asked again with all others held: it must give the same.
5. `check_selectors` compares selectors (random_selectors.py), device by device: no wrong yes or no, and no answer at
   all where upstream fails. Plain ones are not left open.
"""

from __future__ import annotations

import json
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.build import compile_package, key_of
from tests.cluster.once import made_once, user_cache
from tests.cluster.toolchain import parse_version
from tests.conformance.floors import ALL, FLOORS
from tests.conformance.random_claims import OUTSIDE
from tests.conformance.tally import ReportLine
from webhook.engine.dra.aligned_devices import AlignedFitter, AlignedPlace, Place
from webhook.engine.dra.device_allocation import DeviceAllocator, Fit, Verdict
from webhook.engine.dra.device_pools import DeviceInventory
from webhook.engine.dra.device_selector import Unevaluable, compiled
from webhook.formats.dra import MAX_RESULTS, Claim, Device, DeviceClass, DeviceId, Slice, TaintRule
from webhook.model.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Case = Mapping[str, Any]

MODULES: Final = Path(__file__).with_name("allocators")
UPSTREAM: Final = "k8s.io/dynamic-resource-allocation"
VERSIONS: Final = sorted((path.parent.name for path in MODULES.glob("*/go.mod")), key=parse_version)
"""The versions of Kubernetes whose allocator can be asked, the oldest first."""
_FLAGS: Final = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=-dwarf=false", "-ldflags=-s -w"]
# A case takes upstream milliseconds; one whose search is long takes the 10 s that kube-scheduler gives it, too.
_AT_ONCE: Final = 200


def find_allocator(version: str, tell: Callable[[str], None]) -> Path:
    """The program that answers as the allocator of a version of `VERSIONS` does; raises `BuildFailedError`."""
    module = MODULES / version

    def compile_it(folder: Path) -> None:
        tell(f"building the device allocator of Kubernetes {version}: once, about 2 minutes on 2 cores")
        compile_package(module, ".", _FLAGS, folder / "allocator", tell)

    folder = made_once(user_cache() / "allocators" / key_of(module, _FLAGS), compile_it, tell)
    return folder / "allocator"


def answered(cases: Iterable[Case], programs: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    """The cases with what each version's allocator answers in `expect`: version -> answer (allocators/main.go)."""
    batch: list[Case] = []
    for case in cases:
        batch.append(case)
        if len(batch) == _AT_ONCE:
            yield from _ask(batch, programs)
            batch = []
    yield from _ask(batch, programs)


def _ask(cases: Sequence[Case], programs: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    answers = {
        version: subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
        for version, program in programs.items()
    }
    for index, case in enumerate(cases):
        expect = {version: json.loads(lines[index]) for version, lines in answers.items()}
        if not any(isinstance(answer, str) for answer in expect.values()):  # a selector that does not compile
            yield {**case, "expect": expect}


def check(cases: Sequence[Case]) -> list[ReportLine]:
    """All nodes of all cases, in every version that was asked."""
    report = _Report()
    for case in cases:
        ours = _our_answers(case)
        for version, nodes in case["expect"].items():
            for node, answer in nodes.items():
                place = f"{case['id']} {node} {version}"
                if version == _LAX and _is_lax(case):
                    report.add_lax(place, answer, ours[node])
                else:
                    report.add(place, case["outside"], answer, ours[node])
    return report.tallies()


# Its distinctAttribute remembers one device of each request, and forgets it when it steps back: devices of one request
# may be equal. And its requests for all devices leave out shared ones that have too little left (docs/unknowns.md).
# Source: structured/internal/incubating, constraint.go and allocator_incubating.go, v0.36.3 and v0.37.2.
_LAX: Final = "1.36"


def _is_lax(case: Case) -> bool:
    specs = [claim["spec"]["devices"] for claim in case["claims"]]
    requests = [part for spec in specs for one in spec["requests"] for part in one.get("firstAvailable", [one])]
    all_devices = any(
        "All" in {one.get("allocationMode"), one.get("exactly", {}).get("allocationMode")} for one in requests
    )
    devices = [device for one in case["slices"] for device in one["spec"].get("devices", ())]
    return any("distinctAttribute" in one for spec in specs for one in spec.get("constraints", ())) or (
        all_devices and any(device.get("allowMultipleAllocations") for device in devices)
    )


def near(cases: Iterable[Case]) -> Iterator[tuple[dict[str, Any], list[list[tuple[Any, ...]]]]]:
    """Cases of one node in which only those devices are free that we choose near a NUMA node, and what these are.

    To hold the others would take shared counters from these, and hold neither shares nor devices with admin access.
    """
    for case in cases:
        if {"admin", "counters", "shares"} & {*case["outside"]}:
            continue
        inventory, claims = _inventory(case)
        fitter = AlignedFitter(DeviceAllocator(inventory), claims)
        for node in case["nodes"]:
            name = node["metadata"]["name"]
            offered = inventory.on(name, node["metadata"]["labels"])
            for numa_id in (0, 1):
                found = fitter.on(Place(name, (numa_id,)), offered)
                if isinstance(found, AlignedPlace) and any(found.devices):
                    ours = {one.device.id for claim in found.devices for one in claim}
                    assert all(
                        one.device.numa_nodes[:1] in {(), (numa_id,)} for claim in found.devices for one in claim
                    ), case["id"]
                    others = [device.id for device in offered.devices if device.id not in ours and not device.shared]
                    held = [
                        _held(number, others[number : number + MAX_RESULTS])
                        for number in range(0, len(others), MAX_RESULTS)
                    ]
                    narrowed = {
                        "id": f"{case['id']} {name} near {numa_id}",
                        "nodes": [node],
                        "claims": [*case["claims"], *held],
                    }
                    yield {**case, **narrowed}, _devices(Fit(Verdict.FITS, found.devices))


def _held(number: int, devices: Sequence[DeviceId]) -> dict[str, Any]:
    """A claim that has these devices."""
    results = [{"request": "r", "driver": one.driver, "pool": one.pool, "device": one.name} for one in devices]
    return {
        "metadata": {"namespace": "others", "name": f"others-{number}", "uid": f"uid-others-{number}"},
        "spec": {"devices": {"requests": []}},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def check_near(cases: Sequence[Case], version: str, program: Path) -> ReportLine:
    """Whether the allocator of a version gives what we chose near NUMA nodes."""
    tally = ReportLine("devices near a NUMA node", ALL)
    asked = list(near(cases))
    for case, (_, ours) in zip(answered([case for case, _ in asked], {version: program}), asked, strict=True):
        (answer,) = case["expect"][version].values()
        tally.count(_expected(answer) if "claims" in answer else [], ours, f"{case['id']} {version}: {answer}")
    return tally


def _our_answers(case: Case) -> dict[str, Fit]:
    inventory, claims = _inventory(case)
    fitter = DeviceAllocator(inventory).fitter(claims)
    found = {}
    for node in case["nodes"]:
        name = node["metadata"]["name"]
        found[name] = fitter.on(inventory.on(name, node["metadata"]["labels"]))
    return found


def _inventory(case: Case) -> tuple[DeviceInventory, list[Claim]]:
    """The devices of a case, and the claims of its pod."""
    inventory = DeviceInventory()
    for one in case["slices"]:
        inventory.put_slice(Slice.from_object(one))
    for one in case["classes"]:
        inventory.put_class(DeviceClass.from_object(one))
    for one in case["rules"]:
        inventory.put_rule(TaintRule.from_object(one))
    claims = {one["metadata"]["name"]: Claim.from_object(one) for one in case["claims"]}
    for claim in claims.values():
        inventory.put_claim(claim)
    return inventory, [claims[name] for name in case["pod"]]


class _Report:
    def __init__(self) -> None:
        self.excluded = ReportLine("  nodes that can allocate are not excluded", ALL)
        self.chosen = ReportLine("  nodes that cannot are not chosen", ALL)
        self.devices = ReportLine("  the same devices", ALL)
        self.inside = ReportLine("  not left open", FLOORS["allocations not left open"])
        self.lax = ReportLine(f"  the same where {_LAX} is lax", Fraction(0))
        self.outside = {name: ReportLine(f"  not left open: {name}", Fraction(0)) for name in OUTSIDE}

    def add(self, place: str, outside: Sequence[str], answer: Case, ours: Fit) -> None:
        can, verdict = "claims" in answer, ours.verdict
        if can:
            wrong = verdict is Verdict.DOES_NOT_FIT
            self.excluded.note_one(agrees=not wrong, disagreement=f"{place}: {_reason(ours)}, but {answer['claims']}")
        else:
            wrong = verdict is Verdict.FITS
            self.chosen.note_one(agrees=not wrong, disagreement=f"{place}: {answer}, but {_devices(ours)}")
        if can and verdict is Verdict.FITS:
            self.devices.count(_expected(answer), _devices(ours), place)
        decided = verdict is not Verdict.CANNOT_SAY
        if not outside:
            self.inside.note_one(agrees=decided, disagreement=f"{place}: {_reason(ours)}")
        elif len(outside) == 1:
            self.outside[outside[0]].note_one(agrees=decided, disagreement=f"{place}: {_reason(ours)}")

    def add_lax(self, place: str, answer: Case, ours: Fit) -> None:
        """One of the cases in which upstream may allocate what it was not to. It never refuses what fits."""
        if "claims" not in answer:
            self.add(place, OUTSIDE, answer, ours)
        else:
            self.lax.count(_expected(answer), _devices(ours), place)

    def tallies(self) -> list[ReportLine]:
        whole = ReportLine("", ALL)
        for part in (self.excluded, self.chosen):
            whole.agree += part.agree
            whole.total += part.total
        return [whole, self.excluded, self.chosen, self.devices, self.inside, self.lax, *self.outside.values()]


def _reason(fit: Fit) -> str:
    return f"{fit.verdict.value}: {fit.cause.phrase}, {fit.detail}"


def _expected(answer: Case) -> list[list[tuple[Any, ...]]]:
    return [
        [(one["request"], one["device"], one.get("admin", False), _amounts(one.get("consumed", {}))) for one in claim]
        for claim in answer["claims"]
    ]


def _devices(fit: Fit) -> list[list[tuple[Any, ...]]]:
    return [
        [(one.request, str(one.device.id), one.admin, dict(one.consumed)) for one in claim]
        for claim in fit.devices
        if claim
    ]


def _amounts(raw: Mapping[str, str]) -> dict[str, int]:
    return {name: Quantity.parse(amount).nano for name, amount in raw.items()}


def check_selectors(cases: Sequence[Case]) -> list[ReportLine]:
    """All devices of all selectors, in every version that was asked."""
    whole = ReportLine("", ALL)
    plain = ReportLine("  not left open: plain", FLOORS["selectors not left open"])
    others = ReportLine("  not left open: others", Fraction(0))
    for case in cases:
        selector = compiled(case["expression"])
        ours = [_say(selector.selects(_device(one))) for one in case["devices"]]
        for version, answers in case["expect"].items():
            for number, (answer, mine) in enumerate(zip(answers, ours, strict=True)):
                place = f"{case['id']} device {number} {version}: {case['expression']}: {answer}, but {mine}"
                theirs = answer if answer in {"yes", "no"} else "error"
                decided = mine in {"yes", "no"}
                whole.note_one(agrees=not decided or mine == theirs, disagreement=place)
                if theirs != "error":
                    (plain if case["plain"] else others).note_one(agrees=decided, disagreement=place)
    return [whole, plain, others]


def _device(raw: Case) -> Device:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": raw["driver"], "pool": pool, "allNodes": True, "devices": [raw["device"]]}
    return Slice.from_object({"metadata": {"name": "slice"}, "spec": spec}).devices[0]


def _say(selected: bool | Unevaluable) -> str:
    return selected.reason if isinstance(selected, Unevaluable) else "yes" if selected else "no"
