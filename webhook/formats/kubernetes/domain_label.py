"""A pod's domains and rank as labels, and the environment variables that read them through the downward API.

A level is named by the last segment of its node label (`rack` of `example.com/rack`). If two levels of a topology
have the same last segment, the whole label is used with a dot for the slash. A level whose name is too long for a
label gets no label; an annotation lists all domains as well.

Source: kubernetes pkg/apis/core/validation and staging apimachinery pkg/util/validation (qualified names: 63 characters
after the slash; a valid node label value is a valid label value everywhere).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from webhook.model.names import DOMAIN_OF_LEVEL, RANK

RANK_VARIABLE: Final = "TOPOLOGY_RANK"
_DOMAIN_VARIABLE: Final = "TOPOLOGY_DOMAIN_"
_LONGEST: Final = 63
_NOT_IN_A_VARIABLE: Final = re.compile(r"[^A-Z0-9]+")


def labels_of_levels(levels: Sequence[str]) -> dict[str, str]:
    """The node label of each level -> the pod label for the pod's domain. Levels with too long a name are left out."""
    endings = Counter(level.rpartition("/")[2] for level in levels)
    names = {level: level.rpartition("/")[2] for level in levels}
    keys = {
        level: f"{DOMAIN_OF_LEVEL}{name if endings[name] == 1 else level.replace('/', '.')}"
        for level, name in names.items()
    }
    return {level: key for level, key in keys.items() if len(key.rpartition("/")[2]) <= _LONGEST}


def labels_of_member(rank: int, domain: Iterable[tuple[str, str]], levels: Sequence[str]) -> dict[str, str]:
    """The labels of a pod with this rank and these domains. domains: (node label, value) by level of its topology."""
    keys = labels_of_levels(levels)
    return {RANK: str(rank)} | {keys[level]: value for level, value in domain if level in keys}


def variables_of_levels(levels: Sequence[str]) -> dict[str, str]:
    """Environment variable -> the pod label that it reads: the rank, and the domain at each level of a topology."""
    variables = {RANK_VARIABLE: RANK}
    for key in labels_of_levels(levels).values():
        level = key.removeprefix(DOMAIN_OF_LEVEL).upper()
        variables.setdefault(_DOMAIN_VARIABLE + _NOT_IN_A_VARIABLE.sub("_", level).strip("_"), key)
    return variables
