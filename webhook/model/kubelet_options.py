"""What is known of a kubelet's options that no exporter publishes: stated on its Node, or learned from its rejections.

Stated by an operator, in the form of the kubelet's own flags:

    topology-webhook.dev/kubelet-options   full-pcpus-only=true,threads-per-core=2,prefer-closest-numa-nodes=true

Learned: a kubelet with full-pcpus-only names the threads per core when it rejects a pod (SMTAlignmentError).
Source: kubernetes pkg/kubelet/cm/cpumanager/{policy_options,policy_static}.go, topologymanager/policy_options.go.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.model.names import KUBELET_OPTIONS
from webhook.model.quoted import quoted

# The most threads of a core that any processor has (SMT8 of POWER).
_MOST_THREADS: Final = 8
# Longer than all of the kubelet's options together.
_LONGEST: Final = 512
_FLAGS: Final = {"true": True, "false": False}
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


NO_OPTIONS: Final = KubeletOptions()


def stated_options(annotations: Mapping[str, str], problems: list[str]) -> KubeletOptions:
    """The options that a Node's annotation states. What cannot be read is left out and named in `problems`."""
    text: object = annotations.get(KUBELET_OPTIONS)
    if text is None:
        return NO_OPTIONS
    if not isinstance(text, str) or len(text) > _LONGEST:
        problems.append(f"annotation {KUBELET_OPTIONS} is ignored: it is no text, or too long")
        return NO_OPTIONS
    threads, flags = 0, dict.fromkeys(("full-pcpus-only", "prefer-closest-numa-nodes"), False)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (side.strip() for side in part.partition("="))
        if name in flags and value in _FLAGS:
            flags[name] = _FLAGS[value]
        elif name == "threads-per-core" and value.isascii() and value.isdigit() and 1 <= int(value) <= _MOST_THREADS:
            threads = int(value)
        else:
            known = ", ".join([*(f"{flag}=true" for flag in flags), f"threads-per-core=1 to {_MOST_THREADS}"])
            problems.append(f"annotation {KUBELET_OPTIONS}: {quoted(part)} is ignored: it is none of {known}")
    whole_cores = flags["full-pcpus-only"]
    if whole_cores and not threads:
        problems.append(f"annotation {KUBELET_OPTIONS}: full-pcpus-only=true needs threads-per-core=, such as 2")
    return KubeletOptions(threads if whole_cores else 0, flags["prefer-closest-numa-nodes"])


def threads_named(status: Mapping[str, Any]) -> int:
    """The threads per core that the kubelet of a rejected pod named; 0: none."""
    message = status.get("message")
    found = _SMT_ERROR.match(message) if isinstance(message, str) else None
    threads = 0 if found is None else int(found[1])
    return threads if threads <= _MOST_THREADS else 0
