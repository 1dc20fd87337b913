"""The versions of Kubernetes that the control plane can be built for.

`controlplane/go.mod` pins one of them, and what stays whatever the version: etcd, kubectl, helm, the simulated
kubelets. Each folder of `kubernetes/` is named like the version that it pins, and written by
`python -m tests.cluster lock` (lock.py).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.cluster.toolchain import parse_version

MODULE = Path(__file__).parent / "controlplane"
OTHERS = Path(__file__).parent / "kubernetes"


def pinned(module: str, folder: Path = MODULE) -> str:
    """The version that a go.mod requires of a module, `go` included: pinned("k8s.io/kubernetes") -> "v1.36.3"."""
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} (\S+)", (folder / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{folder / 'go.mod'} requires no {module}")
    return found[1]


DEFAULT: Final = "1.37"
"""The version that the tests run, unless the environment asks for another one."""
SIMULATED: Final = ".".join(map(str, parse_version(pinned("k8s.io/kubernetes"))[:2]))
"""The version in `controlplane/go.mod`: that of the simulated kubelets and of kubectl."""


def versions() -> list[str]:
    """All versions, the oldest first: ["1.30", "1.37"]."""
    others = [path.parent.name for path in OTHERS.glob("*/go.mod")]
    return sorted([SIMULATED, *others], key=parse_version)


def module_of(version: str) -> Path:
    """The folder of the Go module that pins a version of `versions`."""
    return MODULE if version == SIMULATED else OTHERS / version
