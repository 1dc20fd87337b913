"""The two families of error: the user's object is wrong, or our call is wrong.

A `UserError` becomes a verdict that a person reads; a `Malfunction` is a bug or an outage and never blames the user.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

# The most faults that one message lists. An object can have 40,000 faults; its author can fix the first ones first.
_TOLD: Final = 10
# Paths hold names that no schema bounds, and messages quote them, so both are truncated.
_LONGEST_PATH: Final = 500
_LONGEST_MESSAGE: Final = 2_000


class UserError(Exception):
    """The user's object is wrong at one path.

    `path` is the field as Kubernetes writes it (`spec.containers[0].resources.requests[cpu]`). `message` is a complete
    sentence with the fault, the value found, the allowed values and the fix. Both are truncated if they are very long.
    """

    def __init__(self, path: str, message: str) -> None:
        path, message = _cut(path, _LONGEST_PATH), _cut(message, _LONGEST_MESSAGE)
        super().__init__(path, message)
        self.path = path
        self.message = message

    @property
    def faults(self) -> tuple["UserError", ...]:
        """Every fault; here only this one."""
        return (self,)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class UserErrors(UserError):  # noqa: N818 - the plural of UserError
    """Several faults of one object, so that the user can fix them all at once."""

    def __init__(self, faults: Sequence[UserError]) -> None:
        self._faults = _told([single for fault in faults for single in fault.faults])
        super().__init__("", " ".join(map(str, self._faults)))

    @property
    def faults(self) -> tuple[UserError, ...]:
        """Every fault in the order found. A long list is truncated, and its last entry counts the rest."""
        return self._faults


def sentences(faults: Iterable[UserError]) -> str:
    """The first faults as sentences, and how many more there are."""
    return " ".join(map(str, UserErrors(tuple(faults)).faults))


def _told(faults: Sequence[UserError]) -> tuple[UserError, ...]:
    shown = tuple(islice(faults, _TOLD))
    if len(faults) <= _TOLD:
        return shown
    last = shown[-1]
    return (*shown[:-1], type(last)(last.path, f"{last.message} There are {len(faults) - _TOLD} more faults."))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


class Malfunction(Exception):  # noqa: N818 - "malfunction" is the word for what it is
    """Our own code is wrong or the cluster's data is unusable: a bug or an outage, never the user's fault."""
