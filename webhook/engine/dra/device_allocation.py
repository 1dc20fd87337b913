"""Which devices of a node the claims of a pod would get.

    allocator = DeviceAllocator(inventory)
    fitter = allocator.fitter(claims of the pod)
    fit = fitter.on(inventory.on(node, labels))
    fit.verdict      FITS, DOES_NOT_FIT or CANNOT_SAY
    fit.devices      if it fits, the devices of each claim; of a claim that is allocated already, none
    fit.cause        why not, or why it is not known; `fit.detail` names the request, selector or pool
    allocator.count(extended resource, inventory.on(node, labels))

What this promises:

- FITS: kube-scheduler can allocate the claims on this node, and these are the devices that it takes, in its order.
- DOES_NOT_FIT: it cannot, as long as the devices, claims, classes and taints are what they are.
- CANNOT_SAY: everything else, such as a selector that webhook.engine.dra.device_selector does not evaluate, an error in
  one, an object that is newer than this code, or a search that is too long. Leave the node to kube-scheduler.
- A claim that is not made yet is one without a uid, with the spec of its template.
- `numa_nodes` restricts the devices to those that do not publish another NUMA node; `alike` names an attribute that all
  devices of the pod that have it must share. Both are ours: kube-scheduler would not see to it.
- `also` are allocations that count besides those of claims: of other members of a gang, or assumed ones.
- Nothing here changes the inventory. Equal claims of other pods, and equal nodes, share the work.

The search:

1. What no node changes: classes exist, and a claim has at most 32 devices. Allocated claims pin
   the pod to their nodes.
2. For each request, the devices that class and selectors select; a request for all devices takes each of them.
3. Claims, requests and devices in their order, depth first; the first complete assignment counts. A device is taken if
   it is free, tolerated, has enough of its counters and shared capacity, and meets the constraints of its claim.
   Of devices that are equal in all of this, only the first is tried where it failed. Upstream tries each, with the same
   result. The limits below end the search.
4. If the search meets something unknown before it is complete, it is repeated with everything unknown taken for
   suitable: if that fails, too, the claims do not fit, else CANNOT_SAY.

Source: k8s.io/dynamic-resource-allocation v0.37.2 structured/internal/incubating (allocator, constraint, consumable
capacity), experimental (attributes that are lists); kubernetes pkg/scheduler/framework/plugins/dynamicresources.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, Self
from weakref import WeakKeyDictionary

from webhook.engine.dra.device_pools import (
    OUT_OF_BUDGET,
    Budget,
    DeviceInventory,
    NodeDevices,
    PoolDevices,
    any_holds,
)
from webhook.engine.dra.device_selector import Unevaluable, compiled
from webhook.formats.dra import (
    MAX_RESULTS,
    Attribute,
    Capacity,
    Claim,
    ClaimSpec,
    Constraint,
    Device,
    DeviceClass,
    DeviceId,
    Request,
    Result,
)
from webhook.model.resources import MAX_AMOUNT

MAX_DEVICES_OF_A_POD: Final = 128
"""Devices that the claims of one pod request: the depth of the search. Four full claims; a pod has a handful."""
MAX_STEPS: Final = 20_000
"""Devices that are tried on one node. A step takes some 3 us, so a node takes 60 ms at most. Where no two devices are
equal, 12 of 16 have 1,820 combinations.
"""
OPERATIONS: Final = 500_000
"""Operations of one decision on all nodes: of selectors, and three for each step. Half a second of one processor. The
first decision with a selector of ten operations on 5,000 nodes with eight devices each takes 400,000; pools keep the
answers for the next ones.
"""
MAX_KEPT: Final = 200_000
"""What all shapes of claims together keep of pools and nodes, at some 300 bytes each: 60 MiB."""
MAX_SHAPES: Final = 256
"""Shapes of claims, of which a tenant can write as many as claims."""
MAX_ANSWERS: Final = 4096
"""Different nodes for which a shape of claims keeps the answer. Nodes of one kind differ by which devices are taken."""
MAX_NUMBERS: Final = 65_536
"""Different devices and pools that a shape of claims numbers. More are those of pools that are long replaced."""
MAX_CONSUMERS: Final = 256
"""Pods that an allocated claim can be reserved for."""
_NANO: Final = 10**9
EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
"""Effects of a taint that keep a device from being allocated."""


class Verdict(Enum):
    """The answer for one node."""

    FITS = "fits"
    DOES_NOT_FIT = "does not fit"
    CANNOT_SAY = "cannot say"


class Cause(Enum):
    """Why claims do not fit on a node, or why that is not known."""

    phrase: str

    def __new__(cls, code: str, phrase: str) -> Self:  # noqa: D102
        member = object.__new__(cls)
        member._value_ = code
        member.phrase = phrase
        return member

    NONE = "Fits", "fits"
    # They do not fit.
    CLAIM_ELSEWHERE = "ClaimElsewhere", "a claim is allocated on other nodes"
    CLAIM_IN_USE = "ClaimInUse", "a claim is used by as many pods as can use it"
    NO_CLASS = "NoDeviceClass", "the device class does not exist"
    TOO_MANY_DEVICES = "TooManyDevices", "a claim has 32 devices at most"
    TOO_FEW_DEVICES = "TooFewDevices", "too few free devices"
    POOL_CHANGES = "PoolChanges", "all devices are requested while a pool is being replaced, or is invalid"
    CONSTRAINTS = "Constraints", "no free devices meet the constraints"
    # It is not known.
    SELECTOR = "Selector", "a selector is not evaluated"
    UNREAD = "Unread", "an object is not read"
    TOO_LONG = "TooLong", "the search takes too long"
    SCHEDULERS = "Schedulers", "only kube-scheduler can allocate the device"


class Taken(NamedTuple):
    """A device for a request."""

    request: str
    """Of a subrequest: `gpu/large`."""
    device: Device
    admin: bool = False
    consumed: tuple[tuple[str, int], ...] = ()
    """Of a device that several claims can have: the capacity that this one takes, by name, in nano-units."""

    def result(self) -> Result:
        """As an allocation. Its share has no real ID."""
        share = "assumed" if self.device.shared else ""
        return Result(self.request, self.device.id, self.admin, share, dict(self.consumed))


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer for one node."""

    verdict: Verdict
    devices: tuple[tuple[Taken, ...], ...] = ()
    """If it fits, for each claim its devices, in the order of the claims; none for a claim that is allocated."""
    cause: Cause = Cause.NONE
    detail: str = ""
    """What the cause is about: a request (`team/claim, request gpu`), a class, a selector's error."""

    @property
    def results(self) -> tuple[Result, ...]:
        """All devices as allocations, e.g. for `also`."""
        return tuple(taken.result() for claim in self.devices for taken in claim)


@dataclass(frozen=True, slots=True)
class DeviceCount:
    """How many devices a node has for an extended resource that a DeviceClass serves."""

    total: int
    """Those that the class selects, also those that are taken or tainted."""
    free: int
    """How many of them a pod can get now. (A pod gets 32 at most, however many there are.)"""
    at_most: int
    """The same, with those for which that is not known; MAX_AMOUNT if there may be any number."""


class DeviceAllocator:
    """The allocation of claims, on an inventory."""

    def __init__(self, inventory: DeviceInventory) -> None:
        self._inventory = inventory
        self._shapes: dict[tuple[Any, ...], _Shape] = {}
        """By what claims request; the oldest ones go first."""

    def fitter(
        self, claims: Sequence[Claim], *, pod_uid: str = "", alike: str = "", budget: Budget | None = None
    ) -> "DeviceFitter":
        """The claims of a pod, in its order, ready for each node. budget: of the decision; without one, a new one."""
        shape = self._shape(claims, alike)
        answer = self._anywhere(claims, pod_uid)
        if answer is None or (shape.is_impossible and answer.verdict is Verdict.CANNOT_SAY):
            answer = shape.anywhere
        return DeviceFitter(claims, shape, answer, budget or Budget(OPERATIONS))

    def count(self, resource: str, node: NodeDevices, *, budget: Budget | None = None) -> DeviceCount:
        """How many devices a node has for an extended resource; none if no DeviceClass serves it."""
        device_class = self._inventory.mapped.get(resource)
        if device_class is None:
            return DeviceCount(0, 0, 0)
        claim = Claim("", "", "", ClaimSpec((Request(resource, device_class.name),)))
        case = _Case(node, None, (), budget or Budget(OPERATIONS), optimistic=False)
        return _Search(self._shape([claim], ""), case).count()

    def _anywhere(self, claims: Sequence[Claim], pod_uid: str) -> Fit | None:
        """The answer that no node changes, by what claims have; None if nodes decide."""
        for claim in claims:
            users = claim.reserved_for
            if claim.allocation and len(users) >= MAX_CONSUMERS and all(user.uid != pod_uid for user in users):
                return Fit(Verdict.DOES_NOT_FIT, cause=Cause.CLAIM_IN_USE, detail=_name(claim))
        fault = next((claim.fault for claim in claims if claim.fault), "")
        return Fit(Verdict.CANNOT_SAY, cause=Cause.UNREAD, detail=fault) if fault else None

    def _shape(self, claims: Sequence[Claim], alike: str) -> "_Shape":
        requested = tuple((_name(claim), None if claim.allocation else claim.spec) for claim in claims)
        used = {
            one.device_class for _, spec in requested if spec for request in spec.requests for one in _exact(request)
        }
        classes = {name: self._inventory.classes.get(name) for name in sorted(used)}
        key = requested, tuple(classes.values()), alike
        shape = self._shapes.pop(key, None)
        if shape is None:
            shape = _Shape(requested, classes, alike)
        shape.tidy()
        self._shapes[key] = shape
        while len(self._shapes) > MAX_SHAPES or (
            len(self._shapes) > 1 and sum(one.kept for one in self._shapes.values()) > MAX_KEPT
        ):
            del self._shapes[next(iter(self._shapes))]
        return shape


class DeviceFitter:
    """The claims of a pod, ready for each node."""

    def __init__(self, claims: Sequence[Claim], shape: "_Shape", anywhere: Fit | None, budget: Budget) -> None:
        self._pins = [
            claim.allocation.terms for claim in claims if claim.allocation and claim.allocation.terms is not None
        ]
        self._shape = shape
        self._budget = budget
        self.anywhere = anywhere
        """The answer that no node changes; None if nodes decide."""

    @property
    def requests_devices(self) -> bool:
        """Whether a claim is still to be allocated."""
        return bool(self._shape.wants)

    def on(self, node: NodeDevices, *, numa_nodes: Collection[int] | None = None, also: Sequence[Result] = ()) -> Fit:
        """The answer for one node."""
        shape = self._shape
        if self.anywhere is not None and self.anywhere.verdict is Verdict.DOES_NOT_FIT:
            return self.anywhere
        if not all(any_holds(terms, node.name, node.labels) for terms in self._pins):
            return Fit(Verdict.DOES_NOT_FIT, cause=Cause.CLAIM_ELSEWHERE)
        if self.anywhere is not None:
            return self.anywhere
        if not shape.wants:
            return Fit(Verdict.FITS, ((),) * shape.claims)

        def search(*, optimistic: bool) -> Fit:
            return shape.answer(_Case(node, numa_nodes, also, self._budget, optimistic))

        unread = next(iter(node.taken.unread.values()), "")
        fit = Fit(Verdict.CANNOT_SAY, cause=Cause.UNREAD, detail=unread) if unread else search(optimistic=False)
        if fit.verdict is not Verdict.CANNOT_SAY or fit.cause is Cause.TOO_LONG:
            return fit
        hopeful = search(optimistic=True)
        return hopeful if hopeful.verdict is Verdict.DOES_NOT_FIT else fit

    def how_many(self, node: NodeDevices, most: int, *, also: Sequence[Result] = ()) -> tuple[int, Fit]:
        """How many pods with equal claims fit on the node together, at most `most`, and the answer for the next one.

        CANNOT_SAY: there may be more. A claim that is allocated is shared by all of them.
        """
        results = list(also)
        for count in range(most):
            fit = self.on(node, also=results)
            if fit.verdict is not Verdict.FITS:
                return count, fit
            found = fit.results
            if not found:
                break
            results += found
        return most, Fit(Verdict.FITS)


@dataclass(frozen=True, slots=True)
class _Want:
    """A request or subrequest."""

    claim: int
    number: int
    """Counts all of a pod."""
    request: Request
    label: str
    selectors: tuple[str, ...]
    """Of its class, then its own."""
    constraints: tuple[int, ...]
    """Which apply, as numbers of all constraints of the pod."""
    fault: str


class _Place(NamedTuple):
    """A device that the search takes."""

    number: int
    """The number of its request or subrequest."""
    at: int
    """Its position among the node's devices."""
    consumed: tuple[tuple[str, int], ...] = ()


class _Shape:
    """What claims request, and the answers for the nodes so far; equal for all pods with equal requests."""

    def __init__(
        self,
        requested: Sequence[tuple[str, ClaimSpec | None]],
        classes: Mapping[str, DeviceClass | None],
        alike: str,
    ) -> None:
        self.claims = len(requested)
        self.constraints: list[Constraint] = [Constraint(alike)] if alike else []
        self.alike = len(self.constraints)
        """How many of the constraints, the first ones, span all claims and leave out devices without the attribute."""
        self.wants: list[tuple[_Want, ...]] = []
        """For each request of each claim that is not allocated: itself, or its subrequests."""
        self.numbered: list[_Want] = []
        """All of them, by number."""
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._of_pool: WeakKeyDictionary[PoolDevices, _PoolKind] = WeakKeyDictionary()
        self._known: dict[tuple[Any, ...], Fit | tuple[_Place, ...]] = {}
        self.anywhere = self._prepare(requested, classes)
        """The answer that no node changes; None if nodes decide."""

    @property
    def is_impossible(self) -> bool:
        """Whether no node can serve the requests."""
        return self.anywhere is not None and self.anywhere.verdict is Verdict.DOES_NOT_FIT

    @property
    def kept(self) -> int:
        """How much is kept of pools and nodes."""
        return len(self._of_pool) + len(self._numbers) + len(self._known)

    def tidy(self) -> None:
        """Forget everything if most of it is of pools that are long replaced. Not during a search."""
        if len(self._numbers) > MAX_NUMBERS:
            self._numbers.clear()
            self._of_pool.clear()
            self._known.clear()

    def _prepare(
        self, requested: Sequence[tuple[str, ClaimSpec | None]], classes: Mapping[str, DeviceClass | None]
    ) -> Fit | None:
        unknown: Fit | None = None
        for index, (name, spec) in enumerate(requested):
            if spec is None:
                continue
            if spec.fault:
                unknown = Fit(Verdict.CANNOT_SAY, cause=Cause.UNREAD, detail=f"{name}: {spec.fault}")
            first = len(self.constraints)
            self.constraints += spec.constraints
            least = 0
            for request in spec.requests:
                group = tuple(
                    _Want(
                        index,
                        len(self.numbered) + number,
                        one,
                        f"request {one.name} of {name}",
                        _selectors(one, classes),
                        self._applying(one, spec, first),
                        one.fault or _fault(one, classes),
                    )
                    for number, one in enumerate(_exact(request))
                )
                missing = next((w for w in group if not w.fault and classes.get(w.request.device_class) is None), None)
                if missing is not None:
                    detail = f"{missing.request.device_class} of {missing.label}"
                    return Fit(Verdict.DOES_NOT_FIT, cause=Cause.NO_CLASS, detail=detail)
                self.numbered += group
                self.wants.append(group)
                least += min(want.request.count or 1 for want in group)
            if least > MAX_RESULTS:
                return Fit(Verdict.DOES_NOT_FIT, cause=Cause.TOO_MANY_DEVICES, detail=name)
        return unknown

    def _applying(self, request: Request, spec: ClaimSpec, first: int) -> tuple[int, ...]:
        """The numbers of the constraints that a request must meet."""
        names = {request.name, request.name.partition("/")[0]}
        own = (at for at, one in enumerate(spec.constraints) if not one.requests or not names.isdisjoint(one.requests))
        return (*range(self.alike), *(first + at for at in own))

    def answer(self, case: "_Case") -> Fit:
        """The answer for a node, or that for an equal node."""
        key = self._key(case)
        known = self._known.get(key) if key is not None else None
        if known is not None:
            return known if isinstance(known, Fit) else self.fit_of(known, list(case.node.devices))
        search = _Search(self, case)
        fit = search.run()
        if key is not None and fit.cause is not Cause.TOO_LONG:
            if len(self._known) >= MAX_ANSWERS:
                self._known.clear()
            self._known[key] = tuple(search.places) if fit.verdict is Verdict.FITS else fit
        return fit

    def fit_of(self, places: Iterable[_Place], devices: Sequence[Device]) -> Fit:
        """The answer with these of the node's devices."""
        found: list[list[Taken]] = [[] for _ in range(self.claims)]
        for number, at, consumed in places:
            want = self.numbered[number]
            found[want.claim].append(Taken(want.request.name, devices[at], want.request.admin, consumed))
        return Fit(Verdict.FITS, tuple(map(tuple, found)))

    def _key(self, case: "_Case") -> tuple[Any, ...] | None:
        """Nodes with equal keys have equal answers; None if that takes more than a key."""
        parts: list[Any] = [case.optimistic]
        for pool in case.node.pools:
            kind = self.kind_of(pool, case.budget)
            if kind.matters and not pool.plain:
                return None
            parts.append(kind.number)
            if kind.matters:
                parts.append(case.states_of(pool))
        return tuple(parts)

    def kind_of(self, pool: PoolDevices, budget: Budget) -> "_PoolKind":
        """What makes the pool equal to others, for these claims."""
        known = self._of_pool.get(pool)
        if known is not None:
            return known
        verdicts = [pool.selected(want.selectors, budget) for want in self.numbered]
        budget.left -= _SIGNATURE * len(pool.devices)
        signatures = tuple(
            self._number(self._signature(pool, device, tuple(row[at] for row in verdicts)))
            for at, device in enumerate(pool.devices)
        )
        matters = any(one is not False for row in verdicts for one in row)
        state = (pool.incomplete, bool(pool.invalid), pool.fault and (pool.driver, pool.fault))
        found = _PoolKind(signatures, self._number((state, signatures if matters else len(signatures))), matters)
        if not any(OUT_OF_BUDGET in row for row in verdicts):
            self._of_pool[pool] = found
        return found

    def _number(self, key: tuple[Any, ...]) -> int:
        """A number for the key, equal for equal keys."""
        return self._numbers.setdefault(key, len(self._numbers))

    def _signature(
        self, pool: PoolDevices, device: Device, verdicts: tuple[bool | Unevaluable, ...]
    ) -> tuple[Any, ...]:
        attributes = [device.attributes.get(one.attribute) for one in self.constraints]
        # A counter is of its pool. Amounts matter for shared devices, and where amounts are requested.
        counters = tuple((use.counter_set, tuple(sorted(use.counters.items()))) for use in device.counters)
        amounts = device.shared or any(want.request.capacity for want in self.numbered)
        return (
            verdicts,
            tuple(tolerated(device, want.request) for want in self.numbered) if device.taints else True,
            tuple(None if one is None else _values(one) for one in attributes),
            (id(pool), counters) if counters else (),
            tuple(sorted(device.capacity.items())) if amounts else (),
            device.shared,
        )


class _PoolKind(NamedTuple):
    """What makes a pool equal to others, for some claims."""

    signatures: tuple[int, ...]
    """For each device a number that is equal for devices that are equal for the claims."""
    number: int
    """Equal for pools that are equal but for which devices are taken."""
    matters: bool
    """Whether any device may be selected."""


def _name(claim: Claim) -> str:
    """The name of a claim that equal pods share: the entry of the pod, if the claim is of a template."""
    return f"claim {claim.pod_claim_name or claim.name}"


def _exact(request: Request) -> tuple[Request, ...]:
    return request.first_available or (request,)


def _selectors(request: Request, classes: Mapping[str, DeviceClass | None]) -> tuple[str, ...]:
    device_class = classes.get(request.device_class)
    return (*device_class.selectors, *request.selectors) if device_class is not None else ()


def _fault(request: Request, classes: Mapping[str, DeviceClass | None]) -> str:
    device_class = classes.get(request.device_class)
    return device_class.fault if device_class is not None else ""


# ---- one node

FREE, IN_USE, ELSEWHERE = range(3)
"""A device can be taken; a claim has it (False and True are the same numbers); it is not on the NUMA nodes."""


class _UnknownError(Exception):
    """The search depends on something that is not known."""

    def __init__(self, cause: Cause, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


class _NoWayError(Exception):
    """kube-scheduler ends the allocation with an error, though other devices might do."""

    def __init__(self, cause: Cause, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


class _Case(NamedTuple):
    """What is asked about one node. optimistic: what is not known counts as suitable."""

    node: NodeDevices
    numa_nodes: Collection[int] | None
    also: Sequence[Result]
    budget: Budget
    optimistic: bool

    def states_of(self, pool: PoolDevices) -> tuple[int, ...]:
        """For each device of the pool, FREE, IN_USE or ELSEWHERE."""
        used = pool.used(self.node.taken)
        if not self.also and self.numa_nodes is None:
            return used
        others = {one.device for one in self.also if not one.share and not one.admin}
        return tuple(
            IN_USE if taken or device.id in others else self._place_of(device)
            for device, taken in zip(pool.devices, used, strict=True)
        )

    def _place_of(self, device: Device) -> int:
        own = device.numa_nodes
        return ELSEWHERE if self.numa_nodes is not None and own and own[0] not in self.numa_nodes else FREE


class _Search:
    """The search on one node. Every change of its state has its undoing in a log, so that a step back is a pop."""

    def __init__(self, shape: _Shape, case: _Case) -> None:
        node = case.node
        self._shape = shape
        self._node = node
        self._budget = case.budget
        self._optimistic = case.optimistic
        self._devices = list(node.devices)
        self._pool_of = [pool for pool in node.pools for _ in pool.devices]
        self._also = [one for one in case.also if not one.admin]
        self._state = [one for pool in node.pools for one in case.states_of(pool)]
        self._signature = [one for pool in node.pools for one in shape.kind_of(pool, self._budget).signatures]
        self._selected: list[list[bool | Unevaluable]] = []
        """For each want and device, whether the device is selected."""
        self.places: list[_Place] = []
        """What is taken so far."""
        self._log: list[Callable[[], object]] = []
        self._steps = MAX_STEPS
        self._unmet = False
        """Whether a constraint rejected a device."""
        self._deepest = 0
        self._users: dict[int, list[int]] = {}
        """Position -> the claims of the pod that take the device."""
        self._consumed: dict[int, list[tuple[tuple[str, int], ...]]] = {}
        """Position of a shared device -> the capacity that the pod's claims take of it."""
        self._left: dict[int, dict[tuple[str, str], int]] = {}
        """id of the pool -> (set, counter) -> nano-units that are left."""
        self._met: list[list[frozenset[Any]]] = [[] for _ in shape.constraints]
        """For each constraint: of matchAttribute, what all devices so far have in common; else the values of each."""

    def run(self) -> Fit:
        """The answer for the node."""
        self._select()
        try:
            self._check()
            for group in self._shape.wants:
                if (detail := self._too_few(group)) is not None:
                    return Fit(Verdict.DOES_NOT_FIT, cause=Cause.TOO_FEW_DEVICES, detail=detail)
            self._check_depth()
            if self._group(0):
                return self._shape.fit_of(self.places, self._devices)
        except _UnknownError as error:
            return Fit(Verdict.CANNOT_SAY, cause=error.cause, detail=error.detail)
        except _NoWayError as error:
            return Fit(Verdict.DOES_NOT_FIT, cause=error.cause, detail=error.detail)
        cause = Cause.CONSTRAINTS if self._unmet else Cause.TOO_FEW_DEVICES
        return Fit(Verdict.DOES_NOT_FIT, cause=cause, detail=self._shape.wants[self._deepest][0].label)

    def _select(self) -> None:
        self._selected = [
            [one for pool in self._node.pools for one in pool.selected(want.selectors, self._budget)]
            for want in self._shape.numbered
        ]

    def count(self) -> DeviceCount:
        """How many devices there are for the only request."""
        if self._shape.is_impossible:
            return DeviceCount(0, 0, 0)
        self._select()
        (want,) = self._shape.numbered
        usable = [
            at
            for at, one in enumerate(self._selected[0])
            if one is not False and self._state[at] == FREE and tolerated(self._devices[at], want.request)
        ]
        total = sum(one is True for one in self._selected[0])
        if want.fault or any(self._is_unread(pool, want) for pool in self._node.pools):
            return DeviceCount(total, 0, MAX_AMOUNT)
        free = sum(self._selected[0][at] is True for at in usable)
        if any(self._devices[at].shared or self._devices[at].counters for at in usable):
            free = self._together(want)
        return DeviceCount(total, 0 if self._node.taken.unread else free, len(usable))

    def _together(self, want: _Want) -> int:
        """How many devices can be taken for the only request, if not all that are free can."""
        try:
            for count in range(MAX_RESULTS):
                found = self._some(0, want, count + 1, 0)
                self._step_back(0)
                if not found:
                    return count
        except _UnknownError:
            return 0
        return MAX_RESULTS

    def _is_unread(self, pool: PoolDevices, want: _Want) -> bool:
        """Whether the pool could not be read, and may have devices for the request."""
        return bool(pool.fault) and not any(compiled(one).excludes(pool.driver) for one in want.selectors)

    def _check(self) -> None:
        """Raise what ends the search before it begins.

        kube-scheduler looks up what a request for all devices selects even of alternatives that it does not need.
        """
        for want in self._shape.numbered:
            if want.fault:
                raise _UnknownError(Cause.UNREAD, f"{want.label}: {want.fault}")
            if want.request.count is None and not self._optimistic:
                for one in self._selected[want.number]:
                    if isinstance(one, Unevaluable):
                        raise _unknown(want, one)
            for pool in self._node.pools:
                if want.request.count is None and (pool.incomplete or pool.invalid):
                    raise _NoWayError(Cause.POOL_CHANGES, f"{want.label}, pool {pool.name} of {pool.driver}")
                if self._is_unread(pool, want):
                    raise _UnknownError(Cause.UNREAD, pool.fault)

    def _check_depth(self) -> None:
        """Raise if the search would be too deep."""
        depth = 0
        for group in self._shape.wants:
            counts = [want.request.count or self._selected[want.number].count(True) for want in group]
            depth += min(max(counts), MAX_RESULTS)
        if depth > MAX_DEVICES_OF_A_POD:
            raise _UnknownError(Cause.TOO_LONG, self._shape.wants[-1][0].label)

    def _too_few(self, group: Sequence[_Want]) -> str | None:
        """What is missing if each alternative needs more devices than are free; None if there may be enough."""
        missing = ""
        for want in group:
            selected = self._selected[want.number]
            usable = {FREE, IN_USE} if want.request.admin else {FREE}
            free = sum(state in usable and one is not False for one, state in zip(selected, self._state, strict=True))
            if free >= (want.request.count or 1):
                return None
            matching = sum(one is not False for one in selected)
            missing = f"{want.label}: {free} of {matching} that match can be taken"
        return missing

    def _group(self, index: int) -> bool:
        """Whether the requests from this one on can be met; then `places` has their devices."""
        if index == len(self._shape.wants):
            return True
        self._deepest = max(self._deepest, index)
        for want in self._shape.wants[index]:
            count = want.request.count
            if count is None:
                if self._all(index, want):
                    return True
            elif self._has_room(want, count) and self._some(index, want, count, 0):
                return True
        return False

    def _has_room(self, want: _Want, count: int) -> bool:
        """Whether the claim may have so many devices more."""
        numbered = self._shape.numbered
        return sum(numbered[place.number].claim == want.claim for place in self.places) + count <= MAX_RESULTS

    def _some(self, index: int, want: _Want, count: int, start: int) -> bool:
        """Whether `count` devices from position `start` on work out, and then the other requests."""
        if count == 0:
            return self._group(index + 1)
        failed = set()
        for at in range(start, len(self._devices)):
            if self._is_used(want, at):
                continue
            # With admin access, a taken device is another choice than a free one: that stays free for other requests.
            kind = self._signature[at], self._state[at], tuple(self._users.get(at, ()))
            if kind in failed and not self._devices[at].shared:
                continue
            before = len(self._log)
            if self._takes(want, at) and self._some(index, want, count - 1, at + 1):
                return True
            self._step_back(before)
            failed.add(kind)
        return False

    def _all(self, index: int, want: _Want) -> bool:
        """Whether all devices that match work out, and then the other requests."""
        selected = self._selected[want.number]
        wanted = [
            at for at, one in enumerate(selected) if one is True and self._capacity(want, at, static=True) is not None
        ]
        if not wanted:
            return any(isinstance(one, Unevaluable) for one in selected) and self._group(index + 1)
        before = len(self._log)
        if (
            self._has_room(want, len(wanted))
            and all(self._takes_certainly(want, at) for at in wanted)
            and self._group(index + 1)
        ):
            return True
        self._step_back(before)
        return False

    def _takes_certainly(self, want: _Want, at: int) -> bool:
        """Take a device of those that the request takes all of: kube-scheduler gives up if a constraint rejects one."""
        if self._is_used(want, at):
            return False
        unmet, self._unmet = self._unmet, False
        taken = self._takes(want, at)
        if self._unmet and not self._optimistic:
            raise _NoWayError(Cause.CONSTRAINTS, want.label)
        self._unmet = unmet or self._unmet
        return taken

    def _step_back(self, before: int) -> None:
        """Undo what was logged since."""
        while len(self._log) > before:
            self._log.pop()()

    def _is_used(self, want: _Want, at: int) -> bool:
        """Whether the device is not free for this request. Admin access shares it, but not within a claim."""
        state, users = self._state[at], self._users.get(at, ())
        if want.request.admin:
            return state == ELSEWHERE or want.claim in users
        return state != FREE or bool(users)

    def _takes(self, want: _Want, at: int) -> bool:
        """Take the device for the request, if it can be taken. If it cannot, the caller steps back."""
        self._steps -= 1
        if self._steps < 0 or not self._budget.take(_STEP):
            raise _UnknownError(Cause.TOO_LONG, want.label)
        device, selected = self._devices[at], self._selected[want.number][at]
        if selected is False:
            return False
        if selected is not True and not self._optimistic:
            raise _unknown(want, selected)
        consumed: tuple[tuple[str, int], ...] = ()
        if not device.fault:  # of which nothing is known; the search is optimistic then
            if device.shared or want.request.capacity:
                found = self._capacity(want, at)
                if found is None:
                    return False
                consumed = found
            if not self._charges(at) or not tolerated(device, want.request):
                return False
            if not all(self._meets(number, device) for number in want.constraints):
                self._unmet = True
                return False
        if device.shared:
            self._log_append(self._consumed.setdefault(at, []), consumed)
        else:
            self._log_append(self._users.setdefault(at, []), want.claim)
        self._log_append(self.places, _Place(want.number, at, consumed if device.shared else ()))
        return True

    def _log_append(self, to: list[Any], item: object) -> None:
        to.append(item)
        self._log.append(to.pop)

    def _meets(self, number: int, device: Device) -> bool:
        """Whether the device meets a constraint, beside those that are taken; then it counts for it."""
        constraint, met = self._shape.constraints[number], self._met[number]
        attribute = device.attributes.get(constraint.attribute)
        if attribute is None:
            return number < self._shape.alike
        values = _values(attribute)
        if constraint.distinct:
            if any(values & others for others in met):
                return False
        elif met and not (values := values & met[-1]):
            return False
        self._log_append(met, values)
        return True

    def _charges(self, at: int) -> bool:
        """Whether there is enough left of what the device consumes; then it is charged. A shared one, once."""
        device, pool = self._devices[at], self._pool_of[at]
        if not device.counters:
            return True
        if device.shared and (self._consumed.get(at) or self._shares_of(device.id)):
            return True
        left = self._left.get(id(pool))
        if left is None:
            left = self._left[id(pool)] = self._counters_of(pool)
        for use in device.counters:
            for counter, amount in use.counters.items():
                key = use.counter_set, counter
                left[key] -= amount
                self._log.append(partial(_give_back, left, key, amount))
        # Upstream looks at all counters of the pool: one that is overdrawn closes it to all devices that consume any.
        return min(left.values()) >= 0

    def _counters_of(self, pool: PoolDevices) -> dict[tuple[str, str], int]:
        """What the allocated devices of the pool leave."""
        left = {
            (name, counter): amount for name, counters in pool.counters.items() for counter, amount in counters.items()
        }
        others = {one.device for one in self._also}
        for device in pool.consumers:
            if self._node.taken.has(device.id) or device.id in others:
                for use in device.counters:
                    for counter, amount in use.counters.items():
                        left[use.counter_set, counter] -= amount
        return left

    def _shares_of(self, device: DeviceId) -> list[Result]:
        """The shares of the device that other claims have."""
        shares = self._node.taken.shares.get(device, {})
        return [one for claim in shares.values() for one in claim] + [
            one for one in self._also if one.share and one.device == device
        ]

    def _capacity(self, want: _Want, at: int, *, static: bool = False) -> tuple[tuple[str, int], ...] | None:
        """What the request takes of the device's capacity; None if it has not enough.

        static: disregarding what others have of it.
        """
        device = self._devices[at]
        requested = dict(want.request.capacity)
        if not requested.keys() <= device.capacity.keys():
            return None
        consumed = {}
        for name, capacity in device.capacity.items():
            amount = consumed_of(capacity, requested.get(name))
            if isinstance(amount, Unevaluable):
                raise _unknown(want, amount)
            consumed[name] = amount
        has: Sequence[Mapping[str, int]] = ()
        if device.shared and not static:
            has = [one.consumed for one in self._shares_of(device.id)] + [
                dict(one) for one in self._consumed.get(at, ())
            ]
        for name, capacity in device.capacity.items():
            total = consumed[name] + sum(one.get(name, 0) for one in has)
            if violates(capacity, consumed[name]) or total > capacity.nano:
                return None
        return tuple(sorted(consumed.items()))


def _give_back(left: dict[tuple[str, str], int], key: tuple[str, str], amount: int) -> None:
    left[key] += amount


_STEP: Final = 3
"""Operations of a step."""
_SIGNATURE: Final = 15
"""Operations to compare a device with others, once for each shape of claims. They may overdraw the budget."""


def _unknown(want: _Want, found: Unevaluable) -> _UnknownError:
    cause = Cause.UNREAD if found.unread else Cause.TOO_LONG if found is OUT_OF_BUDGET else Cause.SELECTOR
    return _UnknownError(cause, f"{want.label}: {found.reason}")


def _values(attribute: Attribute) -> frozenset[Any]:
    """What a constraint compares. 1 and true are different."""
    return frozenset((attribute.kind, value) for value in attribute.values)


def tolerated(device: Device, request: Request) -> bool:
    """Whether the request tolerates all taints of the device that have an effect on allocations."""
    return all(
        taint.effect not in EFFECTS or any(toleration.covers(taint) for toleration in request.tolerations)
        for taint in device.taints
    )


def consumed_of(capacity: Capacity, requested: int | None) -> int | Unevaluable:
    """How much of a capacity a request consumes, in nano-units. requested: None if it does not say."""
    policy = capacity.policy
    if requested is None:
        return capacity.nano if policy is None or policy.default is None else policy.default
    if policy is None:
        return requested
    if policy.minimum is None:
        return next((valid for valid in policy.valid if requested <= valid), requested)
    if requested < policy.minimum:
        return policy.minimum
    if not policy.step:
        return requested
    if any(amount % _NANO for amount in (requested, policy.minimum, policy.maximum or 0, policy.step)):
        # A feature gate decides whether thousandths count.
        return Unevaluable("fractions of a capacity are not evaluated")
    steps = -(-(requested - policy.minimum) // policy.step)
    return policy.minimum + steps * policy.step


def violates(capacity: Capacity, consumed: int) -> bool:
    """Whether the device may not be consumed in this amount."""
    policy = capacity.policy
    if policy is None or consumed == policy.default:
        return False
    if policy.minimum is not None or policy.maximum is not None:
        return (policy.maximum is not None and consumed > policy.maximum) or bool(
            policy.step and (consumed - (policy.minimum or 0)) % policy.step
        )
    return bool(policy.valid) and consumed not in policy.valid
