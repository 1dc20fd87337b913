"""A number with its noun. Every message with a number is built by this function, so that none says `1 pods`."""


def counted(count: int, one: str, many: str = "", *, number: str = "") -> str:
    """`1 pod`, else `3 pods`.

    many: for other plurals and for verbs (`node fits`, `nodes fit`). number: how the count is written, e.g. `1,204`.
    """
    return f"{number or count} {one if count == 1 else many or plural(one)}"


def plural(noun: str) -> str:
    """`racks`, `switches`."""
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
