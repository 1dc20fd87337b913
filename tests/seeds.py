"""Seeds for programs that search for faults, if the user gives none. They print it. Tests must not use this."""

from random import SystemRandom


def fresh_seed() -> int:
    """A new seed, short enough to type."""
    return SystemRandom().randrange(10**6)
