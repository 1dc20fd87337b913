"""Does a CEL expression of a DeviceClass or a request select a device? Yes, no, or `Unevaluable` with the reason.

    device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model in ["B200", "H200"]
    device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0

`compiled(expression)` never raises and is cached; `Selector.selects(device)` is then some microseconds, and less for a
device that is like another in what the expression reads: of 40,000 GPUs only a few are evaluated.

1. Read the text into an expression of closures. Text that is not read at all makes the whole Unevaluable; a function or
   macro that is not known makes that part Unevaluable.
2. Evaluate as cel-go does: an error, like what is Unevaluable, passes through every operator, but `false && error` is
   false and `true || error` is true, whichever side it is on. A result that is no bool is an error.

An error upstream ends the whole allocation, so it is never a no; here it is Unevaluable, too, with its own reason.

Known are: `device` with driver, attributes, capacity and allowMultipleAllocations; literals (int, bool, string, list);
`? :`, `||`, `&&`, `!`, comparisons, `in`, arithmetic of ints; `[]`, `.name`, `.?name` with orValue and hasValue;
`has()`, `cel.bind()`, `size()`, `quantity()`, `semver()`, `matches()` of a literal and the methods in `_METHODS`.
The API server has checked the types, so an ill-typed expression does not get here.

cel-python 0.5.0 is not used. It takes 824 us for one evaluation (here: 2 us), so 33 s for the 40,000 devices of 5,000
nodes; `true == 1` is true in it; it has no `.?`, `cel.bind` and comparisons of quantities, and nested text ends in a
RecursionError. It would add 41 MiB to the process.

Source: github.com/google/cel-spec doc/langdef.md, cel-go interpreter and common/types, k8s.io/apiserver
pkg/cel/library (quantity.go, semver_lib.go), k8s.io/dynamic-resource-allocation v0.37.2 cel/compile.go.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from webhook.engine.dra.device_pattern import PatternError, read_pattern
from webhook.formats.dra import Attribute, Capacity, Device, Kind, qualified
from webhook.model.quantity import Quantity, QuantityError
from webhook.model.wording import quoted

MAX_LENGTH: Final = 10 * 1024
"""Characters of an expression: the API server's own limit."""
MAX_DEPTH: Final = 24
"""Nested brackets, calls and conditions. Each takes 12 frames of Python's stack of 1,000 to read it, and less to
evaluate it. Examples of drivers nest four deep; cel-go stops at 250.
"""
MAX_SELECTORS: Final = 256
"""Expressions that stay compiled. Classes and templates have a few; users' claims have as many as there are claims."""
MAX_KINDS: Final = 256
"""Different devices, in what an expression reads, whose answers it keeps. If there are more, it may read what every
device has for itself (uuid), and keeps none. Each takes some 300 bytes: 20 MiB for all expressions.
"""
MAX_COMPARED: Final = 64
"""Elements of lists that are compared with each other: a device's attributes have 48 values."""
MAX_JOINED: Final = 1024
"""Characters of texts that are joined: a text that is doubled 24 times would take a gigabyte."""


class Unevaluable(NamedTuple):
    """Why it is not known whether a device is selected, as part of a sentence."""

    reason: str
    unread: bool = False
    """Whether the device could not be read, whatever the selector is."""


class _Version(NamedTuple):
    """A semantic version: a tuple whose order is that of versions. Build metadata does not count."""

    numbers: tuple[int, int, int]
    release: bool
    """A version without a suffix comes after all with one."""
    suffix: tuple[tuple[bool, int, str], ...]


class _Amount(NamedTuple):
    """A quantity in nano-units."""

    nano: int


class _Read(NamedTuple):
    """A name that an evaluation reads of a device."""

    name: str
    capacity: bool = False


_ALL: Final = _Read("*")
"""Read if the answer depends on more than the values of some names."""


class _View(NamedTuple):
    """A device, and the names that an evaluation reads of it."""

    device: Device
    reads: set[_Read]


class _Names(NamedTuple):
    """The attributes or capacities of one domain: a map from their identifiers."""

    values: Mapping[str, Attribute] | Mapping[str, Capacity]
    domain: str
    driver: str
    capacity: bool
    reads: set[_Read]


class _Domains(NamedTuple):
    """`device.attributes` or `device.capacity`: a map from domains. An unknown domain has an empty map."""

    values: Mapping[str, Attribute] | Mapping[str, Capacity]
    driver: str
    capacity: bool
    reads: set[_Read]


class _AnyDevice(NamedTuple):
    """Some device of a driver."""

    driver: str


class _List:
    """A list. A search in it takes the same time however long it is, because an expression can do many."""

    __slots__ = ("_keys", "types", "values")

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)
        self.types = frozenset(map(type, values))
        self._keys: frozenset[tuple[type, Any]] | None = None

    def has(self, item: Any) -> "bool | Unevaluable":
        """Whether an element equals the item."""
        if self._keys is None:
            self._keys = frozenset((type(value), value) for value in self.values if type(value) in _SIMPLE)
        kind = type(item)
        if kind in _SIMPLE and (kind, item) in self._keys:
            return True
        if kind not in _SIMPLE or not self.types <= _SIMPLE or (kind in _OBJECTS and not self.types <= {kind}):
            return Unevaluable("`in` a list of other types is not evaluated")
        return False

    def equals(self, other: "_List") -> "bool | Unevaluable":
        """Whether both have equal elements in the same order."""
        if len(self.values) != len(other.values):
            return False
        if len(self.values) > MAX_COMPARED or not (self.types | other.types) <= _SIMPLE - _OBJECTS:
            return Unevaluable("a comparison of these lists is not evaluated")
        pairs = zip(self.values, other.values, strict=True)
        return all(type(one) is type(two) and one == two for one, two in pairs)


class _Optional(NamedTuple):
    """An optional value; `value` is _NONE if there is none."""

    value: Any


class _None:
    """No value."""


_NONE: Final = _None()

_SIMPLE: Final[frozenset[type]] = frozenset({bool, int, str, _Version, _Amount})
_OBJECTS: Final[frozenset[type]] = frozenset({_Version, _Amount})
"""Types of Kubernetes: compared with a value of another type, they are an error, not different."""

# A value is bool, int, str, one of the classes above, or Unevaluable.
_Value = Any
_Variables = dict[str, _Value]
_Evaluate = Callable[[_Variables], _Value]
_Step = tuple[Callable[..., _Value], Sequence[_Evaluate]]
"""What follows a value, such as a name after a dot: what it does with the value, and its operands."""


class Selector:
    """A compiled expression."""

    __slots__ = ("_evaluate", "_known", "_names", "cost")

    def __init__(self, evaluate: _Evaluate, cost: int) -> None:
        self._evaluate = evaluate
        self.cost = cost
        """How many operations it has: the time of an evaluation is at most proportional to it."""
        self._names: tuple[_Read, ...] | None = ()
        """What evaluations read so far; None if no answer is kept."""
        self._known: dict[tuple[Any, ...], bool | Unevaluable] = {}
        """Driver and values of these names -> the answer. With equal values, an evaluation reads the same names."""

    def known(self, device: Device) -> bool | Unevaluable | None:
        """The answer for the device, if it takes no evaluation; else None."""
        if device.fault:
            return Unevaluable(device.fault, unread=True)
        return None if self._names is None else self._known.get(self._key(device, self._names))

    def selects(self, device: Device) -> bool | Unevaluable:
        """Whether it selects the device."""
        known = self.known(device)
        if known is not None:
            return known
        reads: set[_Read] = set()
        value: _Value = self._evaluate({"device": _View(device, reads)})
        found = value if isinstance(value, bool | Unevaluable) else Unevaluable("the result is no bool")
        if self._names is not None:
            self._keep(device, reads, found)
        return found

    def _keep(self, device: Device, reads: set[_Read], found: bool | Unevaluable) -> None:
        if not reads <= set(self._names or ()):
            self._names = tuple(sorted(reads.union(self._names or ())))
            self._known.clear()
        if _ALL in reads or len(self._known) >= MAX_KINDS:
            self._names = None
            self._known.clear()
        else:
            self._known[self._key(device, self._names or ())] = found

    def _key(self, device: Device, names: tuple[_Read, ...]) -> tuple[Any, ...]:
        attributes, capacities = device.attributes, device.capacity
        return (
            device.id.driver,
            *[capacities.get(name) if capacity else attributes.get(name) for name, capacity in names],
        )

    def excludes(self, driver: str) -> bool:
        """Whether it selects no device of this driver, whatever its attributes are."""
        return self._evaluate({"device": _AnyDevice(driver)}) is False


@lru_cache(maxsize=MAX_SELECTORS)
def compiled(expression: str) -> Selector:
    """The selector that the text spells. What cannot be read is Unevaluable for every device."""
    try:
        parser = _Parser(expression)
        return Selector(parser.whole(), parser.operations)
    except _NotReadError as error:
        unread = Unevaluable(f"{quoted(expression)} is not evaluated: {error}")
        return Selector(lambda _: unread, 1)


class _NotReadError(Exception):
    """The text is outside of what is read here."""


# ---- 1. reading

_TOKENS: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n\f]+ | //[^\n]*)
  | (?P<string>[rR](?:"(?!"")[^"\n]*" | '(?!'')[^'\n]*') | "(?!"")(?:[^"\\\n]|\\.)*" | '(?!'')(?:[^'\\\n]|\\.)*')
  | (?P<number>\d+\.\d|\d[\w.]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<symbol>\|\||&&|==|!=|<=|>=|[-+*/%!<>?:.,\[\](){}])
    """,
    re.VERBOSE | re.ASCII,
)
_RAW: Final = frozenset("rR")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_IN_CONSTANTS: Final = frozenset({",", "-", "true", "false"})
_MACROS: Final = frozenset({"all", "exists", "exists_one", "filter", "map", "optMap", "optFlatMap"})
"""Methods whose first argument names a variable of the others. They are not evaluated."""
_KEPT: Final = frozenset("\"'\\?`")  # what stands for itself after a backslash
_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
# Reserved words of CEL: none of them can be a name.
_RESERVED: Final = re.compile(
    "as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void|while|null"
)


class _Token(NamedTuple):
    kind: str
    text: str


_END: Final = _Token("end", "")


class _Parser:
    """Recursive descent over CEL's grammar, straight into closures."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise _NotReadError("it is too long")
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self._bound: list[str] = []
        self.operations = 0

    def whole(self) -> _Evaluate:
        """The whole text as an expression; raises _NotReadError."""
        found = self._expression()
        if self._next is not _END:
            raise _NotReadError(f"{quoted(self._next.text)} is not expected")
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> str:
        """The next token's text if it is one of these symbols or words, which is then used up; else empty."""
        token = self._tokens[self._at]
        if token.text in texts and token.kind in {"symbol", "name"}:
            self._at += 1
            return token.text
        return ""

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise _NotReadError(f"{quoted(text)} is missing")

    def _expression(self) -> _Evaluate:
        self._deeper()
        found = self._any()
        if self._take("?"):
            then = self._any()
            self._expect(":")
            found = self._counted(_condition(found, then, self._expression()))
        self._depth -= 1
        return found

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _NotReadError(f"it is nested deeper than {MAX_DEPTH} times")

    def _counted(self, evaluate: _Evaluate) -> _Evaluate:
        self.operations += 1
        return evaluate

    def _any(self) -> _Evaluate:
        parts = [self._all()]
        while self._take("||"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else self._counted(_logic(parts, ends=True))

    def _all(self) -> _Evaluate:
        parts = [self._comparison()]
        while self._take("&&"):
            parts.append(self._comparison())
        return parts[0] if len(parts) == 1 else self._counted(_logic(parts, ends=False))

    def _comparison(self) -> _Evaluate:
        return self._chain(_COMPARISONS, self._sum)

    def _sum(self) -> _Evaluate:
        return self._chain(frozenset("+-"), self._product)

    def _product(self) -> _Evaluate:
        return self._chain(frozenset("*/%"), self._unary)

    def _chain(self, operators: frozenset[str], part: Callable[[], _Evaluate]) -> _Evaluate:
        first = part()
        rest: list[tuple[Callable[[_Value, _Value], _Value], _Evaluate]] = []
        while operator := self._take(*operators):
            rest.append((_OPERATORS[operator], part()))
        self.operations += len(rest)
        return _chain(first, rest) if rest else first

    def _unary(self) -> _Evaluate:
        sign = self._next.text if self._next.kind == "symbol" else ""
        if sign not in {"!", "-"}:
            return self._member()
        times = 0
        while self._take(sign):
            times += 1
        if sign == "-" and times == 1 and self._next.kind == "number":
            return self._members(_constant(_negative_number(self._tokens[self._take_any()].text)))
        operand = self._member()
        for _ in range((times - 1) % 2 + 1):
            operand = self._counted(_strict(_not if sign == "!" else _negative, operand))
        return operand

    def _take_any(self) -> int:
        self._at += 1
        return self._at - 1

    def _member(self) -> _Evaluate:
        return self._members(self._primary())

    def _members(self, first: _Evaluate) -> _Evaluate:
        steps = self._steps()
        return _path(first, steps) if steps else first

    def _steps(self) -> list[_Step]:
        steps: list[_Step] = []
        while True:
            if self._take("."):
                optional = bool(self._take("?"))
                name = self._name()
                if not optional and self._take("("):
                    steps.append(self._call(name))
                else:
                    steps.append((_select_optional if optional else _select, (_constant(name),)))
            elif self._take("["):
                if self._next.text == "?":
                    raise _NotReadError("[?] is not known")
                steps.append((_index, (self._expression(),)))
                self._expect("]")
            else:
                break
        self.operations += len(steps)
        return steps

    def _call(self, name: str) -> _Step:
        if name in _MACROS:
            return self._macro(name)
        if name == "matches" and self._next.kind == "string" and self._tokens[self._at + 1].text == ")":
            return self._matches()
        return _method(name), self._arguments(")")

    def _matches(self) -> _Step:
        text = _unescaped(self._next.text)
        self._at += 2
        try:
            pattern = read_pattern(text)
        except PatternError:
            unknown = _unknown(f"the pattern {quoted(text)}")
            return (lambda _: unknown), ()
        # An attribute has 64 characters, each of which takes a step for each position.
        self.operations += 8 * pattern.size

        def found_in(value: _Value) -> _Value:
            if type(value) is not str or len(value) > MAX_JOINED:
                return _no_overload("matches", value)
            found = pattern.found_in(value)
            return _unknown(f"the pattern {quoted(text)}") if found is None else found

        return found_in, ()

    def _macro(self, name: str) -> _Step:
        bound = len(self._bound)
        for token in self._tokens[self._at : self._at + 3 : 2]:  # one or two variables
            if token.kind == "name":
                self._bound.append(token.text)
        self._arguments(")")
        del self._bound[bound:]
        unknown = _unknown(f".{name}()")
        return (lambda _: unknown), ()

    def _name(self) -> str:
        token = self._next
        if token.kind != "name":
            raise _NotReadError("a name is missing")
        self._at += 1
        return token.text

    def _arguments(self, end: str) -> list[_Evaluate]:
        found: list[_Evaluate] = []
        while not self._take(end):
            if found:
                self._expect(",")
                if self._take(end):
                    break
            found.append(self._expression())
        return found

    def _primary(self) -> _Evaluate:
        token = self._next
        self._at += 1
        if token.kind == "string":
            return _constant(_unescaped(token.text))
        if token.kind == "number":
            return _constant(_number(token.text, 2**63 - 1))
        if token.text == "(":
            found = self._expression()
            self._expect(")")
            return found
        if token.text == "[":
            return self._list()
        if token.kind == "name":
            return self._named(token.text)
        raise _NotReadError(f"{quoted(token.text)} is not expected")

    def _list(self) -> _Evaluate:
        start = self._at
        elements = self._arguments("]")
        self.operations += len(elements)
        if all(token.kind in {"string", "number"} or token.text in _IN_CONSTANTS for token in self._between(start)):
            values = [element({}) for element in elements]
            unread = next((value for value in values if type(value) is Unevaluable), None)
            return _constant(_List(values) if unread is None else unread)
        return _strict(lambda *values: _List(values), *elements)

    def _between(self, start: int) -> Sequence[_Token]:
        return self._tokens[start : self._at - 1]

    def _named(self, name: str) -> _Evaluate:
        if name in {"true", "false"}:
            return _constant(name == "true")
        if name == "null":
            return _constant(_unknown("null"))
        if _RESERVED.fullmatch(name):
            raise _NotReadError(f"{name} is not known")
        if name == "cel" and self._take("."):
            return self._bind()
        if self._take("("):
            if name == "has":
                return self._has()
            return self._counted(_strict(_function(name), *self._arguments(")")))
        if name != "device" and name not in self._bound:
            raise _NotReadError(f"{name} is not known")
        return lambda variables: variables[name]

    def _has(self) -> _Evaluate:
        """`has(e.f)`: a member that is not there is no error."""
        self._deeper()
        first, steps = self._primary(), self._steps()
        self._depth -= 1
        if not steps or steps[-1][0] is not _select or not self._take(")"):
            raise _NotReadError("has() takes a name after a dot")
        *steps, (_, last) = steps
        return _path(first, [*steps, (_has, last)])

    def _bind(self) -> _Evaluate:
        """`cel.bind(name, value, expression)`. An error in the value is one only where the name is used."""
        if self._name() != "bind":
            raise _NotReadError("of cel, only bind is known")
        self._expect("(")
        name = self._name()
        self._expect(",")
        value = self._expression()
        self._expect(",")
        self._bound.append(name)
        inner = self._expression()
        self._bound.pop()
        self._expect(")")
        return self._counted(lambda variables: inner({**variables, name: value(variables)}))


def _tokens(text: str) -> list[_Token]:
    found = []
    at = 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None:
            raise _NotReadError(f"{quoted(text[at : at + 20])} is not expected")
        at = match.end()
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(_Token(kind, match[0]))
    # More than one, since what reads a name looks one further.
    return [*found, _END, _END, _END]


def _unescaped(literal: str) -> str:
    if literal[0] in _RAW:
        return literal[2:-1]
    return _ESCAPED.sub(_escape, literal[1:-1])


def _escape(match: re.Match[str]) -> str:
    if match[1] in _KEPT:
        return match[1]
    if match[1] not in _ESCAPES:
        raise _NotReadError(f"the escape {quoted(match[0])} is not known")
    return _ESCAPES[match[1]]


_WHOLE: Final = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19}", re.ASCII)


def _number(text: str, most: int) -> _Value:
    """A literal: an int, or Unevaluable for a double or uint. most: the largest int."""
    if _WHOLE.fullmatch(text) is None:
        return _unknown(f"the number {quoted(text)}")
    value = int(text, 16 if text[1:2] in {"x", "X"} else 10)
    if value > most:
        raise _NotReadError(f"{text} is too large")
    return value


def _negative_number(text: str) -> _Value:
    value = _number(text, 2**63)
    return value if type(value) is Unevaluable else -value


# ---- 2. evaluation


def _constant(value: _Value) -> _Evaluate:
    return lambda _: value


def _strict(apply: Callable[..., _Value], *operands: _Evaluate) -> _Evaluate:
    """What is Unevaluable in an operand makes the whole so."""

    def evaluate(variables: _Variables) -> _Value:
        values = [operand(variables) for operand in operands]
        for value in values:
            if type(value) is Unevaluable:
                return value
        return apply(*values)

    return evaluate


def _chain(first: _Evaluate, rest: Sequence[tuple[Callable[[_Value, _Value], _Value], _Evaluate]]) -> _Evaluate:
    """`first + second - third`, from left to right; a loop, so that a long chain is not a deep one."""

    def evaluate(variables: _Variables) -> _Value:
        found = first(variables)
        for apply, operand in rest:
            if type(found) is Unevaluable:
                return found
            value = operand(variables)
            found = value if type(value) is Unevaluable else apply(found, value)
        return found

    return evaluate


def _path(first: _Evaluate, steps: Sequence[_Step]) -> _Evaluate:
    """`first.name[key].method(argument)`, from left to right."""

    def evaluate(variables: _Variables) -> _Value:
        found = first(variables)
        for apply, operands in steps:
            if type(found) is Unevaluable:
                return found
            values = [operand(variables) for operand in operands]
            for value in values:
                if type(value) is Unevaluable:
                    return value
            found = apply(found, *values)
        return found

    return evaluate


def _logic(parts: Sequence[_Evaluate], *, ends: bool) -> _Evaluate:
    """`||` (ends: True) and `&&` (ends: False). Any part that has the value `ends` decides, also beside errors."""

    def evaluate(variables: _Variables) -> _Value:
        found: _Value = not ends
        for part in parts:
            value = part(variables)
            if value is ends:
                return ends
            if value is not (not ends) and found is (not ends):
                found = value if type(value) is Unevaluable else _no_overload("&&, ||", value)
        return found

    return evaluate


def _condition(condition: _Evaluate, then: _Evaluate, otherwise: _Evaluate) -> _Evaluate:
    def evaluate(variables: _Variables) -> _Value:
        value = condition(variables)
        if value is True:
            return then(variables)
        if value is False:
            return otherwise(variables)
        return value if type(value) is Unevaluable else _no_overload("? :", value)

    return evaluate


def _no_overload(operator: str, *values: _Value) -> Unevaluable:
    """The error of cel-go for values of the wrong type."""
    return Unevaluable(f"{operator} takes no {' and '.join(_type_of(value) for value in values)}")


def _type_of(value: _Value) -> str:
    return {bool: "bool", int: "int", str: "string", _List: "list", _Version: "semver", _Amount: "quantity"}.get(
        type(value), "map"
    )


def _equal(left: _Value, right: _Value) -> bool | Unevaluable:
    """Values of different types are different: 1 is not true."""
    if type(left) in _SIMPLE and type(right) in _SIMPLE:
        if type(left) is type(right):
            return bool(left == right)
        return _no_overload("==", left, right) if type(left) in _OBJECTS else False
    if type(left) is _List and type(right) is _List:
        return left.equals(right)
    return _unknown(f"a comparison of {_type_of(left)} and {_type_of(right)}")


def _unknown(what: str) -> Unevaluable:
    return Unevaluable(f"{what} is not evaluated")


def _different(left: _Value, right: _Value) -> bool | Unevaluable:
    """Not equal, which an error of the comparison is, too."""
    found = _equal(left, right)
    if isinstance(found, Unevaluable):
        return True if type(left) in _SIMPLE and type(right) in _SIMPLE else found
    return not found


def _ordered(symbol: str, holds: Callable[[Any, Any], bool]) -> Callable[[_Value, _Value], _Value]:
    def apply(left: _Value, right: _Value) -> _Value:
        if type(left) is type(right) and type(left) in {int, str, bool}:
            return holds(left, right)
        return _no_overload(symbol, left, right)

    return apply


def _in(item: _Value, among: _Value) -> bool | Unevaluable:
    if type(among) is _List:
        return among.has(item)
    if type(item) is str and type(among) is _Names:
        return _value(among, item) is not _NONE
    if type(item) is str and type(among) is _Domains:
        among.reads.add(_ALL)
        return any(qualified(name, among.driver).startswith(f"{item}/") for name in among.values)
    return _no_overload("in", item, among)


def _arithmetic(symbol: str, apply: Callable[[int, int], int]) -> Callable[[_Value, _Value], _Value]:
    def whole(left: _Value, right: _Value) -> _Value:
        if type(left) is not int or type(right) is not int:
            if symbol == "+" and type(left) is str and type(right) is str and len(left) + len(right) <= MAX_JOINED:
                return left + right
            return _no_overload(symbol, left, right)
        if symbol in {"/", "%"} and right == 0:
            return Unevaluable("division by zero")
        return _int64(apply(left, right))

    return whole


def _int64(value: int) -> int | Unevaluable:
    return value if -(2**63) <= value < 2**63 else Unevaluable("integer overflow")


def _quotient(left: int, right: int) -> int:
    """Rounded towards zero, as Go does."""
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


_OPERATORS: Final[Mapping[str, Callable[[_Value, _Value], _Value]]] = {
    "==": _equal,
    "!=": _different,
    "<": _ordered("<", lambda left, right: left < right),
    "<=": _ordered("<=", lambda left, right: left <= right),
    ">": _ordered(">", lambda left, right: left > right),
    ">=": _ordered(">=", lambda left, right: left >= right),
    "in": _in,
    "+": _arithmetic("+", lambda left, right: left + right),
    "-": _arithmetic("-", lambda left, right: left - right),
    "*": _arithmetic("*", lambda left, right: left * right),
    "/": _arithmetic("/", _quotient),
    "%": _arithmetic("%", lambda left, right: left - right * _quotient(left, right)),
}


def _not(value: _Value) -> _Value:
    return (not value) if type(value) is bool else _no_overload("!", value)


def _negative(value: _Value) -> _Value:
    return _int64(-value) if type(value) is int else _no_overload("-", value)


def _select(owner: _Value, name: str) -> _Value:
    """`owner.name`."""
    if type(owner) is _Names:
        found = _value(owner, name)
        return Unevaluable(f"the device has no {owner.domain}/{name}") if found is _NONE else found
    if type(owner) is _View:
        return _field(owner, name)
    if type(owner) is _AnyDevice:
        return owner.driver if name == "driver" else Unevaluable("it depends on the device")
    if type(owner) is _Domains:
        return _Names(owner.values, name, owner.driver, owner.capacity, owner.reads)
    if type(owner) is _Optional:
        return owner if owner.value is _NONE else _select_optional(owner.value, name)
    return _no_overload(f".{name}", owner)


def _field(view: _View, name: str) -> _Value:
    device, reads = view
    driver = device.id.driver
    match name:
        case "driver":
            return driver
        case "attributes":
            return _Domains(device.attributes, driver, capacity=False, reads=reads)
        case "capacity":
            return _Domains(device.capacity, driver, capacity=True, reads=reads)
        case "allowMultipleAllocations":
            reads.add(_ALL)
            return device.shared
    return _unknown(f"device.{name[:60]}")


def _select_optional(owner: _Value, name: str) -> _Value:
    """`owner.?name`."""
    if type(owner) is _Optional:
        return owner if owner.value is _NONE else _select_optional(owner.value, name)
    if type(owner) is _Names:
        found = _value(owner, name)
        return found if type(found) is Unevaluable else _Optional(found)
    if type(owner) is _View:
        found = _field(owner, name)
        return found if type(found) is Unevaluable else _Optional(found)
    if type(owner) is _Domains:
        return _Optional(_Names(owner.values, name, owner.driver, owner.capacity, owner.reads))
    return _no_overload(f".?{name}", owner)


def _index(owner: _Value, key: _Value) -> _Value:
    """`owner[key]`."""
    if type(owner) is _List:
        if type(key) is not int:
            return _no_overload("[]", owner, key)
        return owner.values[key] if 0 <= key < len(owner.values) else Unevaluable("index out of bounds")
    if type(owner) is _Optional and type(key) is str:
        return owner if owner.value is _NONE else _optional_of(_index(owner.value, key))
    if type(owner) in {_Names, _Domains} and type(key) is str:
        return _select(owner, key)
    return _no_overload("[]", owner, key)


def _optional_of(value: _Value) -> _Value:
    return value if type(value) is Unevaluable else _Optional(value)


def _has(owner: _Value, name: str) -> bool | Unevaluable:
    if type(owner) is _Names:
        found = _value(owner, name)
        return found if type(found) is Unevaluable else found is not _NONE
    return _unknown("has() of this")


def _value(names: _Names, name: str) -> _Value:
    """The value of an attribute or capacity; _NONE if the device does not have it."""
    full = f"{names.domain}/{name}"
    found = names.values.get(full)
    names.reads.add(_Read(full, names.capacity))
    if found is None and names.domain == names.driver:
        found = names.values.get(name)  # a capacity has its name as it is published
        names.reads.add(_Read(name, names.capacity))
    if found is None:
        return _NONE
    if isinstance(found, Capacity):
        return _Amount(found.nano)
    if found.kind is not Kind.VERSION:
        return _List(found.values) if found.listed else found.values[0]
    versions = [_version(text) for text in found.values]
    for version in versions:
        if type(version) is Unevaluable:
            return version
    return _List(versions) if found.listed else versions[0]


# blang/semver: no leading zeros, no "v". Numbers are uint64 there; longer ones are not read.
_NUMBER: Final = r"(0|[1-9][0-9]{0,17})"
_PART: Final = r"(?:0|[1-9][0-9]{0,17}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?", re.ASCII
)


@lru_cache(maxsize=1024)
def _version(text: str) -> _Version | Unevaluable:
    match = _SEMVER.fullmatch(text) if len(text) <= 256 else None
    if match is None:
        return Unevaluable(f"{quoted(text)} is no version")
    # Numbers come before words.
    parts = (match[4] or "").split(".") if match[4] else []
    suffix = tuple((False, int(part), "") if part.isdigit() else (True, 0, part) for part in parts)
    return _Version((int(match[1]), int(match[2]), int(match[3])), not suffix, suffix)


@lru_cache(maxsize=1024)
def _quantity(text: str) -> _Amount | Unevaluable:
    try:
        return _Amount(Quantity.parse(text).nano)
    except QuantityError:
        return Unevaluable(f"{quoted(text)} is no quantity")


# ---- functions


def _of(kind: type, apply: Callable[..., _Value], others: type | None = None) -> tuple[type, type | None, Any]:
    return kind, others, apply


_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}

# Name -> for each type of the receiver: the type of the arguments (None: there is none), and what it does.
_METHODS: Final[Mapping[str, Sequence[tuple[type, type | None, Callable[..., _Value]]]]] = {
    "startsWith": [_of(str, str.startswith, str)],
    "endsWith": [_of(str, str.endswith, str)],
    "contains": [_of(str, lambda text, part: part in text, str)],
    "lowerAscii": [_of(str, lambda text: text.translate(_LOWER))],
    "upperAscii": [_of(str, lambda text: text.translate(_UPPER))],
    "size": [_of(str, len), _of(_List, lambda found: len(found.values))],
    "compareTo": [
        _of(_Amount, lambda one, other: (one > other) - (one < other), _Amount),
        _of(_Version, lambda one, other: (one > other) - (one < other), _Version),
    ],
    "isGreaterThan": [
        _of(_Amount, lambda one, other: one > other, _Amount),
        _of(_Version, lambda one, other: one > other, _Version),
    ],
    "isLessThan": [
        _of(_Amount, lambda one, other: one < other, _Amount),
        _of(_Version, lambda one, other: one < other, _Version),
    ],
    "sign": [_of(_Amount, lambda one: (one.nano > 0) - (one.nano < 0))],
    "major": [_of(_Version, lambda one: one.numbers[0])],
    "minor": [_of(_Version, lambda one: one.numbers[1])],
    "patch": [_of(_Version, lambda one: one.numbers[2])],
}
_FUNCTIONS: Final[Mapping[str, Callable[[str], _Value]]] = {
    "quantity": _quantity,
    "semver": _version,
    "isQuantity": lambda text: type(_quantity(text)) is _Amount,
    "isSemver": lambda text: type(_version(text)) is _Version,
}


def _function(name: str) -> Callable[..., _Value]:
    def apply(*arguments: _Value) -> _Value:
        if len(arguments) == 1 and name in _FUNCTIONS and type(arguments[0]) is str:
            return _FUNCTIONS[name](arguments[0])
        if len(arguments) == 1 and name == "size":
            return _method(name)(*arguments)
        return _unknown(f"{name[:60]}() of this")

    return apply


def _method(name: str) -> Callable[..., _Value]:
    overloads = _METHODS.get(name, ())

    def apply(owner: _Value, *arguments: _Value) -> _Value:
        if type(owner) is _Optional:
            return _of_optional(owner, name, arguments)
        if name == "includes" and len(arguments) == 1 and type(owner) in {_List, *_SIMPLE}:
            return _in(arguments[0], owner if type(owner) is _List else _List([owner]))
        for kind, others, method in overloads:
            if type(owner) is kind and (
                not arguments if others is None else len(arguments) == 1 and type(arguments[0]) is others
            ):
                return method(owner, *arguments)
        return _unknown(f".{name[:60]}() of {_type_of(owner)}")

    return apply


def _of_optional(owner: _Optional, name: str, arguments: tuple[_Value, ...]) -> _Value:
    if name == "orValue" and len(arguments) == 1:
        return arguments[0] if owner.value is _NONE else owner.value
    if name == "hasValue" and not arguments:
        return owner.value is not _NONE
    return _unknown(f".{name[:60]}() of an optional value")
