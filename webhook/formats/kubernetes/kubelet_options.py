"""What is known of a kubelet's options that no exporter publishes: stated on its Node, or learned from its rejections.

Stated by an operator, in the form of the kubelet's own flags:

    topology-webhook.dev/kubelet-options   full-pcpus-only=true,threads-per-core=2,max-allowable-numa-nodes=64

Learned: a kubelet with full-pcpus-only names the threads per core when it rejects a pod (SMTAlignmentError).
Source: kubernetes pkg/kubelet/cm/cpumanager/{policy_options,policy_static}.go, topologymanager/policy_options.go.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.model.names import KUBELET_OPTIONS
from webhook.model.wording import did_you_mean, quoted

# The most threads of a core that any processor has (SMT8 of POWER).
_MOST_THREADS: Final = 8
# Longer than all of the kubelet's options together.
_LONGEST: Final = 512
_FLAGS: Final = {"true": True, "false": False}
_FULL_CORES: Final = "full-pcpus-only"
_CLOSEST: Final = "prefer-closest-numa-nodes"
_BY_SOCKET: Final = "align-by-socket"
_ACROSS_NUMA: Final = "distribute-cpus-across-numa"
_ACROSS_CORES: Final = "distribute-cpus-across-cores"
# Those after the fifth change no answer.
_OPTIONS: Final = (
    *(_FULL_CORES, _CLOSEST, _BY_SOCKET, _ACROSS_NUMA, _ACROSS_CORES),
    *("strict-cpu-reservation", "prefer-align-cpus-by-uncorecache"),
)
_THREADS: Final = "threads-per-core"
_MOST_NUMA: Final = "max-allowable-numa-nodes"
_PER_SOCKET: Final = "numa-nodes-per-socket"
# The kubelet refuses a limit below its default. No processor has more than 8 NUMA nodes (EPYC 7001 with two dies each).
_NUMBERS: Final = {_THREADS: (1, _MOST_THREADS), _MOST_NUMA: (8, 1024), _PER_SOCKET: (1, 8)}
# A kubelet does not start with both (cpumanager/policy_options.go).
_CONTRADICTIONS: Final = ((_FULL_CORES, _ACROSS_CORES), (_ACROSS_NUMA, _ACROSS_CORES))
_SMT_ERROR: Final = re.compile(
    r"(?:Pod was rejected: )?SMT Alignment Error: .{1,200}\bcpus per core = (\d{1,2})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """The options that matter for an admission."""

    whole_cores: int = 0
    """With full-pcpus-only, the threads per core; 0: without it, or not known."""
    prefer_closest: bool = False
    """prefer-closest-numa-nodes."""
    max_numa_nodes: int = 0
    """max-allowable-numa-nodes; 0: not stated."""
    spread_cpus: bool = False
    """distribute-cpus-across-numa or distribute-cpus-across-cores: CPUs of several NUMA nodes are not taken packed."""
    numa_per_socket: int = 0
    """With align-by-socket, the NUMA nodes of a socket; 0: without it, or not known."""

    def named(self) -> Mapping[str, str]:
        """Those that are set, as the annotation states them: option -> value."""
        named = {_FULL_CORES: "true", _THREADS: str(self.whole_cores)} if self.whole_cores else {}
        named |= {_CLOSEST: "true"} if self.prefer_closest else {}
        named |= {_MOST_NUMA: str(self.max_numa_nodes)} if self.max_numa_nodes else {}
        named |= {_ACROSS_NUMA: "true"} if self.spread_cpus else {}
        return named | ({_BY_SOCKET: "true", _PER_SOCKET: str(self.numa_per_socket)} if self.numa_per_socket else {})


NO_OPTIONS: Final = KubeletOptions()


def stated_options(annotations: Mapping[str, str], problems: list[str]) -> KubeletOptions:
    """The options that a Node's annotation states. What cannot be read is left out and named in `problems`."""
    text: object = annotations.get(KUBELET_OPTIONS)
    if text is None:
        return NO_OPTIONS
    if not isinstance(text, str) or len(text) > _LONGEST:
        problems.append(f"annotation {KUBELET_OPTIONS} is ignored: it is no text, or too long")
        return NO_OPTIONS
    flags, numbers = dict.fromkeys(_OPTIONS, False), dict.fromkeys(_NUMBERS, 0)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (side.strip() for side in part.partition("="))
        if name in flags and value in _FLAGS:
            flags[name] = _FLAGS[value]
        elif (number := _number(name, value)) is not None:
            numbers[name] = number
        else:
            problems.append(f"annotation {KUBELET_OPTIONS}: {quoted(part)} is ignored: {_what_is_wrong(name)}")
    for one, other in _CONTRADICTIONS:
        if flags[one] and flags[other]:
            problems.append(f"annotation {KUBELET_OPTIONS}: a kubelet does not start with both {one} and {other}")
    for flag, needed in ((_FULL_CORES, _THREADS), (_BY_SOCKET, _PER_SOCKET)):
        if flags[flag] and not numbers[needed]:
            problems.append(f"annotation {KUBELET_OPTIONS}: {flag}=true needs {needed}=, such as 2")
    return KubeletOptions(
        numbers[_THREADS] if flags[_FULL_CORES] else 0,
        flags[_CLOSEST],
        numbers[_MOST_NUMA],
        flags[_ACROSS_NUMA] or flags[_ACROSS_CORES],
        numbers[_PER_SOCKET] if flags[_BY_SOCKET] else 0,
    )


def _number(name: str, value: str) -> int | None:
    """The number that is stated; None: the option takes none, or another."""
    least, most = _NUMBERS.get(name, (1, 0))
    valid = value.isascii() and value.isdigit() and len(value) <= len(str(most)) and least <= int(value) <= most
    return int(value) if valid else None


def _what_is_wrong(name: str) -> str:
    if name in _OPTIONS:
        return f"{name} is true or false"
    if name in _NUMBERS:
        least, most = _NUMBERS[name]
        return f"{name} is a number from {least} to {most}"
    known = (*_OPTIONS, *_NUMBERS)
    return f"{quoted(name)} is none of {', '.join(known)}.{did_you_mean(name, known)}"


def threads_named(status: Mapping[str, Any]) -> int:
    """The threads per core that the kubelet of a rejected pod named; 0: none."""
    message = status.get("message")
    found = _SMT_ERROR.match(message) if isinstance(message, str) else None
    threads = 0 if found is None else int(found[1])
    return threads if threads <= _MOST_THREADS else 0
