"""The two families of error: the user's object is wrong, or our call is wrong.

A `UserError` becomes a verdict that a person reads; a `Malfunction` is a bug or an outage and never blames the user.
"""

from collections.abc import Sequence


class UserError(Exception):
    """The user's object is wrong at one place.

    `path` is the field as Kubernetes writes it (`spec.containers[0].resources.requests[cpu]`), `message` a complete
    sentence: the fault, the value found, what is allowed, the cure.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    @property
    def faults(self) -> tuple["UserError", ...]:
        """Every single fault: this one."""
        return (self,)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class UserErrors(UserError):  # noqa: N818 - the plural of UserError
    """Several faults of one object, so that a user mends them in one go."""

    def __init__(self, faults: Sequence[UserError]) -> None:
        self._faults = tuple(single for fault in faults for single in fault.faults)
        super().__init__("", " ".join(map(str, self._faults)))

    @property
    def faults(self) -> tuple[UserError, ...]:
        """Every single fault, in the order they were found."""
        return self._faults


class Malfunction(Exception):  # noqa: N818 - "malfunction" is the word for what it is
    """Our own call is wrong or our input from the cluster is unusable: a bug or an outage, never the user's fault."""
