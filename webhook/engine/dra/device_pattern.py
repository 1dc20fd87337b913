"""Regular expressions of selectors (`matches`), in time that is linear in the text whatever the pattern is.

Python's `re` tries alternatives one after the other, which takes some patterns longer than the age of a cluster; a
tenant writes these. Go's RE2 does not, and neither does this: it follows all alternatives at once.

    letters, escaped ones and classes (d, w, s and their opposites), . [a-z] [^a-z]
    * + ? and their lazy forms, ( | ), (?: ), ^ at the start, $ at the end, (?i) before all

Anything else is not read. Each letter is a position; a set of positions is an int, a bit for each.

1. Read the pattern into its positions: which of them can be first and last, and which can follow which.
2. Follow the text: after each character, the positions that the text so far can have reached.

Source: V. M. Glushkov, The abstract theory of automata (1961); RE2's syntax (github.com/google/re2 doc/syntax.txt).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MAX_POSITIONS: Final = 128
"""Letters of a pattern. Patterns of selectors have some ten."""
_MAX_DEPTH: Final = 16  # groups in each other

_Accepts = Callable[[str], bool]
"""Whether a position takes a character."""

_CLASSES: Final[dict[str, _Accepts]] = {
    "d": lambda char: "0" <= char <= "9",
    "w": lambda char: char.isascii() and (char.isalnum() or char == "_"),
    "s": lambda char: char in "\t\n\f\r ",
}
_CONTROL: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class PatternError(Exception):
    """The pattern is not read here."""


class _Part(NamedTuple):
    """A part of a pattern: whether it matches the empty text, and where it can begin and end."""

    empty: bool
    first: int
    last: int


_NOTHING: Final = _Part(True, 0, 0)


@dataclass(slots=True)
class _Branch:
    """One of the alternatives of the whole pattern."""

    at_start: bool = False
    at_end: bool = False
    part: _Part = _NOTHING


@dataclass(slots=True)
class Pattern:
    """A pattern that is read."""

    _branches: list[_Branch]
    _accepts: list[_Accepts]
    _follow: list[int]
    _ignores_case: bool
    _known: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many positions it has: the steps for a character are as many at most."""
        return len(self._accepts)

    def found_in(self, text: str) -> bool | None:
        """Whether it matches a part of the text; None if that is not known."""
        if self._ignores_case:
            if not text.isascii():
                return None  # some letters have a small form in ASCII
            text = text.lower()
        return any(self._is_found(branch, text) for branch in self._branches)

    def _is_found(self, branch: _Branch, text: str) -> bool:
        part = branch.part
        if part.empty and (not text or not (branch.at_start and branch.at_end)):
            return True
        reached = 0
        for number, char in enumerate(text):
            following = part.first if number == 0 or not branch.at_start else 0
            position = 0
            while reached:
                if reached & 1:
                    following |= self._follow[position]
                reached >>= 1
                position += 1
            reached = following & self._accepting(char)
            if reached & part.last and not branch.at_end:
                return True
        return bool(reached & part.last)

    def _accepting(self, char: str) -> int:
        """The positions that take the character."""
        known = self._known.get(char)
        if known is None:
            known = sum(1 << position for position, accepts in enumerate(self._accepts) if accepts(char))
            if len(self._known) < MAX_POSITIONS:
                self._known[char] = known
        return known


def read_pattern(text: str) -> Pattern:
    """The pattern; raises PatternError."""
    return _Reader(text).whole()


class _Reader:
    def __init__(self, text: str) -> None:
        self._ignores_case = text.startswith("(?i)")
        self._text = text.removeprefix("(?i)")
        self._at = 0
        self._depth = 0
        self._accepts: list[_Accepts] = []
        self._follow: list[int] = []

    def whole(self) -> Pattern:
        branches = [self._branch()]
        while self._take("|"):
            branches.append(self._branch())
        if self._at < len(self._text):
            raise PatternError(self._text[self._at :])
        return Pattern(branches, self._accepts, self._follow, self._ignores_case)

    def _branch(self) -> _Branch:
        at_start = self._take("^")
        part = self._sequence()
        return _Branch(at_start, self._take("$"), part)

    def _take(self, char: str) -> bool:
        if self._text.startswith(char, self._at):
            self._at += len(char)
            return True
        return False

    def _sequence(self) -> _Part:
        found = _NOTHING
        while self._at < len(self._text) and self._text[self._at] not in "|)$":
            found = self._joined(found, self._repeated(self._one()))
        return found

    def _joined(self, one: _Part, other: _Part) -> _Part:
        self._link(one.last, other.first)
        return _Part(
            one.empty and other.empty,
            one.first | (other.first if one.empty else 0),
            other.last | (one.last if other.empty else 0),
        )

    def _link(self, before: int, after: int) -> None:
        for position in range(len(self._follow)):
            if before >> position & 1:
                self._follow[position] |= after

    def _repeated(self, part: _Part) -> _Part:
        for sign in "*+?":
            if self._take(sign):
                self._take("?")
                if self._at < len(self._text) and self._text[self._at] in "*+?":
                    raise PatternError(sign)
                if sign != "?":
                    self._link(part.last, part.first)
                return part if sign == "+" else part._replace(empty=True)
        return part

    def _one(self) -> _Part:
        if self._take("("):
            return self._group()
        if self._take("["):
            return self._position(self._set())
        if self._take("."):
            return self._position(lambda char: char != "\n")
        char = self._text[self._at]
        if char in "*+?{}^)]":
            raise PatternError(char)
        return self._position(self._letter())

    def _group(self) -> _Part:
        self._depth += 1
        if self._depth > _MAX_DEPTH or (self._text.startswith("?", self._at) and not self._take("?:")):
            raise PatternError("(")
        found = self._sequence()
        while self._take("|"):
            other = self._sequence()
            found = _Part(found.empty or other.empty, found.first | other.first, found.last | other.last)
        if not self._take(")"):
            raise PatternError(")")
        self._depth -= 1
        return found

    def _position(self, accepts: _Accepts) -> _Part:
        if len(self._accepts) == MAX_POSITIONS:
            raise PatternError("it is too long")
        bit = 1 << len(self._accepts)
        self._accepts.append(accepts)
        self._follow.append(0)
        return _Part(False, bit, bit)

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise PatternError("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _letter(self) -> _Accepts:
        """A letter or an escape."""
        char = self._next()
        if char != "\\":
            return self._equal(char)
        char = self._next()
        if char.lower() in _CLASSES:
            within = _CLASSES[char.lower()]
            return within if char.islower() else lambda other: not within(other)
        if char.isalnum() and char not in _CONTROL:
            raise PatternError(char)
        return self._equal(_CONTROL.get(char, char))

    def _equal(self, char: str) -> _Accepts:
        if self._ignores_case and not char.isascii():
            raise PatternError(char)
        wanted = char.lower() if self._ignores_case else char
        return lambda other: other == wanted

    def _set(self) -> _Accepts:
        """`[a-z_]`, after its bracket."""
        negative = self._take("^")
        accepts: list[_Accepts] = []
        while not accepts or not self._take("]"):
            if self._text.startswith("[", self._at):
                raise PatternError("[")  # a class by name
            first = self._text[self._at] if self._at < len(self._text) else ""
            letter = self._letter()
            if first != "\\" and self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                last = self._next()
                if last in "\\[" or last < first:
                    raise PatternError("-")
                letter = self._between(first, last)
            accepts.append(letter)
        if negative:
            return lambda char: not any(accept(char) for accept in accepts)
        return lambda char: any(accept(char) for accept in accepts)

    def _between(self, first: str, last: str) -> _Accepts:
        if not self._ignores_case:
            return lambda char: first <= char <= last
        # A text is in small letters then.
        return lambda char: first <= char <= last or first <= char.upper() <= last
