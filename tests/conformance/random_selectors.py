"""Random selectors of devices, from a seed alone: what cel-go is asked about, as kube-scheduler's allocator runs it.

A selector compares what devices have or lack, of the right type and of others, and joins such terms. Every second one
is `plain`: comparisons, `in`, `has()`, quantities and versions, as drivers' documents show them, and nothing else.
Not all compile: what no API server takes is dropped by who asks (allocations.py).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

Raw = dict[str, Any]

GPU, STANDARD = "gpu.example.com", "resource.kubernetes.io"
_DEVICES: Final = 5
_STRINGS: Final = ("a100", "A100", "b-200", "", "0", "pci0000:00", "ümlaut")
_VERSIONS: Final = ("1.0.0", "1.2.3", "1.10.0", "2.0.0-rc.1", "2.0.0-rc.1.2", "2.0.0+build", "2.0.0-0.3.7", "10.0.0")
_QUANTITIES: Final = ("40Gi", "80Gi", "80G", "1500m", "1.5", "0", "-1", "1e3", "1k", "9Ei")
# Name -> the types of value that devices have there.
_ATTRIBUTES: Final = {
    "model": "string",
    "index": "int",
    "mig": "bool",
    "driver": "version",
    "odd": "any",
    "root": "string",
}
_DEEPEST: Final = 3


def draw_selectors(seed: int, count: int) -> Iterator[Raw]:
    """The selectors of a seed, each with some devices. One is the same whatever number is drawn."""
    for number in range(count):
        random = Random(f"{seed}/{number}")  # noqa: S311 - reproducible, not secret
        devices = [_device(random, index) for index in range(_DEVICES)]
        plain = number % 2 == 0
        expression = _Terms(random, plain).bool()
        yield {"id": f"selector-{seed}-{number}", "plain": plain, "expression": expression, "devices": devices}


def _device(random: Random, index: int) -> Raw:
    attributes: Raw = {}
    for name, kind in _ATTRIBUTES.items():
        if random.random() < 0.9:
            attributes[random.choice((name, f"{GPU}/{name}"))] = _attribute(random, kind)
    attributes[f"{STANDARD}/numaNode"] = {"int": random.randrange(2)}
    if random.random() < 0.5:
        attributes[f"{STANDARD}/pcieRoot"] = {"string": "pci0000:00"}
    capacity = {
        name: {"value": random.choice(_QUANTITIES[:-4] + _QUANTITIES[-3:])}
        for name in ("memory", "cores")
        if random.random() < 0.9
    }
    device: Raw = {"name": f"d{index}", "attributes": attributes, "capacity": capacity}
    if random.random() < 0.2:
        device["allowMultipleAllocations"] = True
    return {"driver": random.choice((GPU,) * 7 + ("nic.example.com",)), "device": device}


def _attribute(random: Random, kind: str) -> Raw:
    match random.choice(("string", "int", "bool", "version")) if kind == "any" else kind:
        case "string":
            return {"string": random.choice(_STRINGS)}
        case "int":
            return {"int": random.choice((0, 1, 2, 3, 7, -1, 2**53 + 1, 2**63 - 1))}
        case "bool":
            return {"bool": random.random() < 0.5}
    return {"version": random.choice(_VERSIONS)}


class _Terms:
    """Terms of the types of CEL, each a text."""

    def __init__(self, random: Random, plain: bool) -> None:
        self.random = random
        self.plain = plain

    def bool(self, depth: int = 0) -> str:
        choose = self.random.choice
        if depth < _DEEPEST and self.random.random() < 0.55:
            one, other = self.bool(depth + 1), self.bool(depth + 1)
            plain = (
                f"{one} && {other}",
                f"{one} || {other}",
                f"({one} || {other})",
                f"({one}) && ({other})",
                f"!({one})",
            )
            if self.plain:
                return choose(plain)
            return choose(
                (
                    *plain,
                    f"({one} ? {other} : {self.bool(depth + 1)})",
                    f"({one}) == ({other})",
                    f"cel.bind(x, {choose((self.int(), self.string()))}, {choose(('x == ' + self.any(), one))})",
                )
            )
        if self.plain:
            return choose((self._comparison, self._comparison, self._has, self._plain))()
        return choose(
            (
                self._comparison,
                self._comparison,
                self._comparison,
                self._has,
                self._has,
                self._text,
                self._quantity,
                self._quantity,
                self._version,
                self._optional,
                self._list,
                self._odd,
            )
        )()

    def int(self) -> str:
        choose = self.random.choice
        of_devices = (self.path("index"), self.path("odd"), f'device.attributes["{STANDARD}"].numaNode')
        literal = choose(("0", "1", "2", "3", "-1", "0x10", "9223372036854775807", "9007199254740993"))
        one = choose((*of_devices, *of_devices, literal))
        if self.plain:
            return one
        if self.random.random() < 0.2:
            return f"{one} {choose('+-*/%')} {choose((*of_devices, literal))}"
        return choose((one, one, one, f"-{one}", f"size({self.string()})", f"({one})"))

    def string(self) -> str:
        choose = self.random.choice
        literal = choose(('"a100"', "'A100'", 'r"b-200"', '""', '"0"', "'pci0000:00'"))
        if self.plain:
            return choose(("device.driver", self.path("model"), self.path("root"), literal))
        return choose(
            (
                "device.driver",
                self.path("model"),
                self.path("odd"),
                self.path("root"),
                literal,
                choose((r'"\x61100"', '"\\u00fcmlaut"', literal)),
                f"{self.path('model')}.lowerAscii()",
                f'{self.path("model")} + "x"',
            )
        )

    def version(self) -> str:
        literal = f'semver("{self.random.choice(_VERSIONS)}")'
        return self.random.choice((self.path("driver"), self.path("odd"), literal, literal))

    def quantity(self) -> str:
        literal = f'quantity("{self.random.choice(_QUANTITIES)}")'
        memory = self.random.choice(("memory",) * 8 + ("cores",) * 8 + ("absent",))
        domain = self.random.choice((GPU,) * 8 + (STANDARD,))
        return self.random.choice(
            (f'device.capacity["{domain}"].{memory}', f"device.capacity['{domain}']['{memory}']", literal)
        )

    def any(self) -> str:
        if self.plain:
            return self.random.choice((self.int, self.string, self.version, self.quantity))()
        literal = self.random.choice(("true", "false", "1.0", "1u", "null", "[1, 2]", '{"a": 1}'))
        return self.random.choice(
            (
                self.int,
                self.int,
                self.string,
                self.string,
                self.version,
                self.quantity,
                lambda: self.path("mig"),
                lambda: literal,
            )
        )()

    def path(self, name: str) -> str:
        """An attribute, mostly one that devices may have."""
        if self.random.random() < 0.03:
            name = "absent"
        domain = self.random.choice((GPU,) * 16 + (STANDARD, "other.example.com"))
        return self.random.choice(
            (
                f'device.attributes["{domain}"].{name}',
                f'device.attributes["{domain}"]["{name}"]',
                f"device.attributes['{domain}'].{name}",
            )
        )

    def _comparison(self) -> str:
        kind = self.random.choice((self.int, self.int, self.string, self.string, self.version, self.quantity, self.any))
        other = self.any if self.random.random() < 0.06 else kind
        operator = self.random.choice(("==", "==", "!=", "<", "<=", ">", ">="))
        return f"{kind()} {operator} {other()}"

    def _has(self) -> str:
        name = self.random.choice((*_ATTRIBUTES, "absent"))
        domain = self.random.choice((GPU, GPU, STANDARD, "other.example.com"))
        return self.random.choice(
            (
                f'has(device.attributes["{domain}"].{name})',
                f'"{name}" in device.attributes["{domain}"]',
                f'"{domain}" in device.attributes',
                f'has(device.capacity["{domain}"].memory)',
                f'"{domain}" in device.capacity',
                self.path("mig"),
                "device.allowMultipleAllocations",
            )
        )

    def _plain(self) -> str:
        kind = self.random.choice((self.int, self.string))
        version, other = self.version(), self.version()
        quantity, amount = self.quantity(), self.quantity()
        return self.random.choice(
            (
                f"{kind()} in [{kind()}, {kind()}]",
                f"{quantity}.compareTo({amount}) {self.random.choice(('>=', '==', '<'))} 0",
                f"{quantity}.isGreaterThan({amount})",
                f"{quantity}.isLessThan({amount})",
                f"{version}.compareTo({other}) >= 0",
                f"{version}.isLessThan({other})",
            )
        )

    def _text(self) -> str:
        method = self.random.choice(("startsWith", "endsWith", "contains", "matches"))
        return f"{self.string()}.{method}({self.string()})"

    def _quantity(self) -> str:
        one, other = self.quantity(), self.quantity()
        return self.random.choice(
            (
                f"{one}.isGreaterThan({other})",
                f"{one}.isLessThan({other})",
                f"{one}.compareTo({other}) {self.random.choice(('>=', '==', '<'))} 0",
                f"{one} == {other}",
                f"{one}.sign() > 0",
                f"{one}.isInteger() && {one}.asInteger() > 1",
                f"{one}.add({other}).isGreaterThan({one})",
                f"{one} in [{other}, {self.quantity()}]",
            )
        )

    def _version(self) -> str:
        one, other = self.version(), self.version()
        return self.random.choice(
            (
                f"{one}.isGreaterThan({other})",
                f"{one}.isLessThan({other})",
                f"{one}.compareTo({other}) <= 0",
                f"{one}.major() >= {self.int()}",
                f"{one}.minor() == 2",
                f"isSemver({self.string()})",
                f"{one} == {other}",
            )
        )

    def _optional(self) -> str:
        name = self.random.choice((*_ATTRIBUTES, "absent"))
        owner = f'device.attributes["{GPU}"].?{name}'
        return self.random.choice(
            (
                f"{owner}.hasValue()",
                f"{owner}.orValue({self.any()}) == {self.any()}",
                f'device.attributes[?"{GPU}"].?{name}.hasValue()',
                f"{owner}.orValue(false)",
            )
        )

    def _list(self) -> str:
        kind = self.random.choice((self.int, self.string, self.string, self.any))
        some = f"[{', '.join(kind() for _ in range(self.random.randint(0, 3)))}]"
        return self.random.choice(
            (
                f"{kind()} in {some}",
                f"{kind()} in {some}",
                f"{kind()} in {some}",
                f"{some}.exists(x, x == {kind()})",
                f"{some}.all(x, x != {kind()})",
                f"size({some}) == {self.int()}",
                f"{some} == {some}",
                f"{some}[0] == {kind()}",
            )
        )

    def _odd(self) -> str:
        return self.random.choice(
            (
                f"dyn({self.any()}) == {self.any()}",
                f"{self.int()} < 2.5",
                f"string({self.int()}) == {self.string()}",
                f'device.attributes.exists(d, d == "{GPU}")',
                f'device.attributes["{GPU}"].exists(name, name == "model")',
                "size(device.attributes) > 1",
                f'size(device.attributes["{GPU}"]) > 2',
                f'device.attributes["{GPU}"].model.includes({self.string()})',
                f"type({self.int()}) == int",
                "true // all",
                "device.driver == device.driver",
            )
        )
