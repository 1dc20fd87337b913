"""An allocator of devices as simple as it can be: all assignments in upstream's order, without any short way."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webhook.engine.dra.device_allocation import tolerated
from webhook.engine.dra.device_pools import NodeDevices
from webhook.engine.dra.device_selector import compiled
from webhook.formats.dra import Claim, Constraint, Device, DeviceClass, Request


class Exhaustive:
    """The first assignment of devices to claims, as names; None if there is none."""

    def __init__(self, node: NodeDevices, claims: Sequence[Claim], classes: Mapping[str, DeviceClass]) -> None:
        self.node = node
        self.devices = list(node.devices)
        self.pools = [pool for pool in node.pools for _ in pool.devices]
        self.claims = claims
        self.classes = classes

    def first(self) -> list[list[str]] | None:
        for taken in self._claims(0, []):
            return [[one.id.name for at, _, one, _ in taken if at == index] for index in range(len(self.claims))]
        return None

    def _claims(self, index: int, taken: list[Any]) -> Iterator[list[Any]]:
        if index == len(self.claims):
            yield taken
            return
        yield from self._requests(index, 0, taken)

    def _requests(self, index: int, number: int, taken: list[Any]) -> Iterator[list[Any]]:
        requests = self.claims[index].spec.requests
        if number == len(requests):
            yield from self._claims(index + 1, taken)
            return
        for one in requests[number].first_available or (requests[number],):
            matching = [at for at, found in enumerate(self.devices) if self._matches(found, one)]
            if one.count is None and not matching:
                continue
            count = len(matching) if one.count is None else one.count
            for more in self._devices(index, one, matching, count, taken):
                yield from self._requests(index, number + 1, more)

    def _devices(
        self, index: int, one: Request, among: Sequence[int], count: int, taken: list[Any]
    ) -> Iterator[list[Any]]:
        if count == 0:
            yield taken
            return
        for place, at in enumerate(among):
            more = [*taken, (index, one, self.devices[at], at)]
            if self._is_free(index, one, at, taken) and self._is_valid(index, more):
                yield from self._devices(index, one, among[place + 1 :], count - 1, more)
            if one.count is None:
                return

    def _matches(self, found: Device, one: Request) -> bool:
        selectors = (*self.classes[one.device_class].selectors, *one.selectors)
        return all(compiled(selector).selects(found) is True for selector in selectors)

    def _is_free(self, index: int, one: Request, at: int, taken: list[Any]) -> bool:
        found = self.devices[at]
        if one.admin:
            return tolerated(found, one) and not any(of == index and other == at for of, _, _, other in taken)
        used = found.id in self.node.taken.holders or any(other == at for _, _, _, other in taken)
        return not used and tolerated(found, one)

    def _is_valid(self, index: int, taken: list[Any]) -> bool:
        for pool in set(self.pools):
            left = {(name, key): value for name, each in pool.counters.items() for key, value in each.items()}
            allocated = [found for found in pool.consumers if self.node.taken.has(found.id)]
            mine = [found for _, _, found, at in taken if self.pools[at] is pool]
            for found in (*allocated, *mine):
                for use in found.counters:
                    for key, value in use.counters.items():
                        left[use.counter_set, key] -= value
            if any(found.counters for found in mine) and min(left.values(), default=0) < 0:
                return False
        return all(self._meets(index, one, taken) for one in self.claims[index].spec.constraints)

    def _meets(self, index: int, constraint: Constraint, taken: list[Any]) -> bool:
        values = []
        for of, one, found, _ in taken:
            names = {one.name, one.name.partition("/")[0]}
            if of == index and (not constraint.requests or names & constraint.requests):
                attribute = found.attributes.get(constraint.attribute)
                if attribute is None:
                    return False
                values.append({(attribute.kind, value) for value in attribute.values})
        if constraint.distinct:
            return all(not one & other for at, one in enumerate(values) for other in values[:at])
        return not values or bool(set.intersection(*values))
