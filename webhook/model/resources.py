"""Resource names and amounts in the units of the engine: cpu in millicores, everything else in base units.

Base units are bytes for memory, hugepages-* and ephemeral-storage, and pieces for devices and pods.
Source: kubernetes pkg/apis/core/v1/helper (native, extended and hugepage names); scheduler-plugins
pkg/noderesourcetopology (host-level resources).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain, islice
from sys import intern
from types import MappingProxyType
from typing import Final

from webhook.model.errors import UserError, UserErrors
from webhook.model.quantity import Quantity, QuantityError
from webhook.model.wording import quoted

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
STORAGE: Final = "storage"
PODS: Final = "pods"
HUGEPAGES_PREFIX: Final = "hugepages-"

# Half of int64: two amounts can be added or subtracted without overflow. 2^62 bytes are 4 EiB.
MAX_AMOUNT: Final = 2**62 - 1

NO_RESOURCES: Final[Mapping[str, int]] = MappingProxyType({})

_BINARY_NAMES = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def is_hugepages(name: str) -> bool:
    """Whether `name` is a size of huge pages, such as hugepages-2Mi."""
    return name.startswith(HUGEPAGES_PREFIX)


def is_memory(name: str) -> bool:
    """Whether the kubelet's memory manager allocates the resource."""
    return name == MEMORY or is_hugepages(name)


def is_native(name: str) -> bool:
    """Whether Kubernetes itself defines the resource: no domain, or one under kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def is_device(name: str) -> bool:
    """Whether a device plugin or an operator provides the resource (an extended resource)."""
    return not is_native(name)


def is_host_level(name: str) -> bool:
    """Whether a resource that no NUMA node lists belongs to the whole machine: storage and extended resources."""
    return name in {EPHEMERAL_STORAGE, STORAGE} or not is_native(name)


def is_aligned_for_guaranteed_only(name: str) -> bool:
    """Whether only Guaranteed pods get the resource from particular NUMA nodes: cpu, memory, huge pages."""
    return name in {CPU, MEMORY} or is_hugepages(name)


def amount(resource: str, quantity: object) -> int:
    """The JSON quantity in engine units, rounded away from zero, at most MAX_AMOUNT; raises QuantityError."""
    if type(quantity) is str:
        return _amount_of_text(resource == CPU, quantity)
    return _clamped(resource == CPU, Quantity.from_json(quantity))


def parse_list(raw: object, path: str) -> Mapping[str, int]:
    """A Kubernetes resource list in engine units, read-only; equal lists are one object.

    Raises UserError for each entry that is not a quantity or is negative; `path` is the field that holds the list. Of
    very long lists only the first 1,024 entries are read, native resources first: we deny such objects only if they
    request a placement (webhook.model.limits).
    """
    if not raw:
        return NO_RESOURCES
    if not isinstance(raw, dict):
        raise UserError(path, f"This must be an object of resource names and quantities, not {quoted(raw)}.")
    if len(raw) > _MOST_READ:
        ordered = chain(filter(is_native, raw), filter(is_device, raw))
        raw = {name: raw[name] for name in islice(ordered, _MOST_READ)}
    try:
        # Only texts are cached: 1 and True are the same dictionary key, but not the same quantity.
        if len(raw) <= _REMEMBERED:
            entries = tuple(raw.items())
            length = 0
            for name, quantity in entries:
                if type(quantity) is not str:
                    break
                length += len(name) + len(quantity)
            else:
                if length <= _REMEMBERED_CHARACTERS:
                    return _parse_texts(entries)
        return _parse_entries(raw.items())
    except QuantityError:
        raise _faults(raw, path) from None


def largest_share(amounts: Mapping[str, int], most: int) -> Mapping[str, int]:
    """The amounts if there are at most `most`; else that many of them, native resources first.

    For objects that we must not deny: no pod requests what is left out.
    """
    if len(amounts) <= most:
        return amounts
    kept = sorted(amounts, key=lambda name: (is_device(name), name))[:most]
    return MappingProxyType({name: amounts[name] for name in kept})


def format_amount(resource: str, amount: int) -> str:
    """An amount for messages: cores ("8", "1500m"), bytes in the largest binary unit that divides, else a count."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in {MEMORY, EPHEMERAL_STORAGE, STORAGE} or is_hugepages(resource):
        for index, name in enumerate(_BINARY_NAMES):
            unit = 1 << (60 - 10 * index)
            if amount and amount % unit == 0:
                return f"{amount // unit}{name}"
    return str(amount)


def format_list(amounts: Mapping[str, int]) -> str:
    """Amounts for messages, cpu and memory first: "8 cpu, 16Gi memory, 1 nvidia.com/gpu"; zeros are left out."""
    ordered = sorted(amounts.items(), key=lambda item: (item[0] != CPU, item[0] != MEMORY, item[0]))
    return ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in ordered if amount) or "nothing"


def format_share(resource: str, part: int, whole: int) -> str:
    """A part of an amount, both in the unit of the whole: "1.5 of 32", "125.7 of 126Ti".

    Rounded to a tenth, or finer if a part would look like nothing or all and is not.
    """
    unit, name = (1000, "") if resource == CPU else (1, "")
    if resource in {MEMORY, EPHEMERAL_STORAGE, STORAGE} or is_hugepages(resource):
        units = ((1 << (60 - 10 * index), name) for index, name in enumerate(_BINARY_NAMES))
        unit, name = next(((unit, name) for unit, name in units if whole >= unit), (1, ""))
    for digits in range(1, 4):
        texts = [f"{amount / unit:,.{digits}f}".rstrip("0").rstrip(".") for amount in (part, whole)]
        if part in {0, whole} or texts[0] not in {"0", texts[1]}:
            break
    return f"{texts[0]} of {texts[1]}{name}"


_MOST_READ: Final = 1024

# 8,192 lists of that size take at most 20 MiB, whatever tenants write.
_REMEMBERED: Final = 16
_REMEMBERED_CHARACTERS: Final = 1024


@lru_cache(maxsize=8192)
def _amount_of_text(is_cpu: bool, text: str) -> int:
    return _clamped(is_cpu, Quantity.from_json(text))


def _clamped(is_cpu: bool, quantity: Quantity) -> int:
    exact = quantity.milli() if is_cpu else quantity.value()
    return max(-MAX_AMOUNT, min(exact, MAX_AMOUNT))


# Pods of one template repeat the same lists, so they share one read-only mapping.
@lru_cache(maxsize=8192)
def _parse_texts(entries: tuple[tuple[str, str], ...]) -> Mapping[str, int]:
    return _parse_entries(entries)


def _parse_entries(entries: Iterable[tuple[str, object]]) -> Mapping[str, int]:
    parsed = {intern(name): amount(name, quantity) for name, quantity in entries}
    if min(parsed.values()) < 0:
        raise QuantityError("negative")
    return MappingProxyType(parsed)


def _faults(raw: Mapping[str, object], path: str) -> UserError:
    faults = [fault for name, quantity in raw.items() if (fault := _fault(name, quantity, path)) is not None]
    return faults[0] if len(faults) == 1 else UserErrors(faults)


def _fault(name: str, quantity: object, path: str) -> UserError | None:
    place = f"{path}[{name}]"
    try:
        if amount(name, quantity) >= 0:
            return None
    except QuantityError:
        return UserError(
            place,
            f"{quoted(quantity)} is not a quantity. Write digits, a decimal point if need be, and one of the suffixes "
            "n u m k M G T P E or Ki Mi Gi Ti Pi Ei, for example 1500m or 16Gi.",
        )
    return UserError(place, f"{quoted(quantity)} is negative. An amount of a resource is zero or more.")
