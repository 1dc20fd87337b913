"""Long work in steps: a generator that yields after each bounded part, and returns the result.

The leader's event loop also answers reviews, so a search must not hold it for as long as it takes.
"""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")

Steps = Generator[None, None, Result]


def result_of(steps: Steps[Result]) -> Result:
    """The result, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
