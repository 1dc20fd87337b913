"""Where the programs that search for faults get a seed that nobody has named; they print it. No test may use this."""

from random import SystemRandom


def fresh_seed() -> int:
    """One that was not used before, short enough to be typed."""
    return SystemRandom().randrange(10**6)
