"""Why a node cannot take a pod: one typed reason for each node, counted for messages.

The order of the members is the order of the checks: a node's reason is the first that applies.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, Self

import numpy as np
import numpy.typing as npt


class Reason(IntEnum):
    """A member's value is what arrays of reasons (uint8 [node]) hold; `code` is for programs, `phrase` for people."""

    code: str
    phrase: str

    def __new__(cls, value: int, code: str, phrase: str) -> Self:  # noqa: D102
        member = int.__new__(cls, value)
        member._value_ = value
        member.code = code
        member.phrase = phrase
        return member

    FITS = 0, "Fits", "fits"
    NOT_READY = 1, "NotReady", "not ready"
    UNSCHEDULABLE = 2, "Unschedulable", "cordoned"
    NODE_SELECTOR_MISMATCH = 3, "NodeSelectorMismatch", "node selector mismatch"
    NODE_AFFINITY_MISMATCH = 4, "NodeAffinityMismatch", "node affinity mismatch"
    UNTOLERATED_TAINT = 5, "UntoleratedTaint", "untolerated taint"
    TOO_MANY_PODS = 6, "TooManyPods", "too many pods"
    INSUFFICIENT_RESOURCES = 7, "InsufficientResources", "insufficient resources"
    NO_TOPOLOGY = 8, "NoTopology", "no NUMA topology known"
    UNKNOWN_POLICY = 9, "UnknownPolicy", "unknown NUMA policy"
    POLICY_MISMATCH = 10, "PolicyMismatch", "NUMA policy mismatch"
    NOT_ENFORCED = 11, "NotEnforced", "the node does not enforce the NUMA policy"
    AMPLIFIED_CPUS = 12, "AmplifiedCPUs", "CPUs amplified by Koordinator"
    CPU_BIND_POLICY_MISMATCH = 13, "CPUBindPolicyMismatch", "CPU bind policy mismatch"
    NOT_WHOLE_CORES = 14, "NotWholeCores", "CPUs are no multiple of the threads per core"
    NO_SINGLE_NUMA_NODE = 15, "NoSingleNUMANode", "no single NUMA node with enough free"
    NOT_ALIGNED = 16, "NotAligned", "resources cannot be aligned"
    ALLOCATION_FAILS = 17, "AllocationFails", "NUMA nodes cannot provide what the alignment needs"
    TOO_MANY_NUMA_NODES = 18, "TooManyNUMANodes", "more NUMA nodes than the kubelet's topology manager takes"
    TOO_FEW_CORES = 19, "TooFewCores", "too few free cores"
    NUMA_NODE_EXCLUSIVE = 20, "NUMANodeExclusive", "NUMA nodes held exclusively"
    REJECTED_BEFORE = 21, "RejectedBefore", "avoided after a rejection"


REASONS: Final = tuple(Reason)

FITS: Final = int(Reason.FITS)
"""The same as an int for array comparisons: numpy takes five times as long with an enum member."""


def count(reasons: npt.NDArray[np.uint8]) -> Mapping[Reason, int]:
    """How many nodes each reason excludes, without FITS and reasons of no node.

    reasons: uint8 [node].
    """
    counts = np.bincount(reasons, minlength=len(REASONS)).tolist()
    return {reason: counts[reason] for reason in REASONS[1:] if counts[reason]}
