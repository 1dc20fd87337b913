"""Pin a release of Kubernetes: write go.mod and go.sum of its control plane into `kubernetes/`.

1. go.mod requires the release alone, with the Go version that the release names.
2. Kubernetes requires its staging modules at v0.0.0 and replaces them by folders of its own tree. Here the published
   modules of the same release replace them.
3. `go mod tidy` adds the rest with its hashes. Every folder links to one source, `kubernetes/main.go`.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.build import build_environment
from tests.cluster.toolchain import go_compiler, parse_version
from tests.cluster.versions import OTHERS, SIMULATED, pinned

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = """\
// The control plane of Kubernetes {minor}, written by `python -m tests.cluster lock {release}`.
module topology-webhook.dev/tests/cluster/kubernetes/v{minor}

go {go}

godebug default=go{go_minor}

require k8s.io/kubernetes {release}

replace (
{replacements}
)
"""


class LockError(RuntimeError):
    """A release cannot be pinned. The message says why."""


def lock(release: str, tell: Callable[[str], None]) -> None:
    """Write the module of a release such as v1.33.13. Releases of one minor version replace each other."""
    minor = _minor(release)
    if minor == SIMULATED:
        raise LockError(f"{minor} is that of the simulated kubelets: its pin is in tests/cluster/controlplane/go.mod")
    go = go_compiler(parse_version(pinned("go")), tell)
    with tempfile.TemporaryDirectory() as scratch:
        asked = _go(go, Path(scratch), "mod", "download", "-json", f"k8s.io/kubernetes@{release}")
    text = module_text(release, Path(json.loads(asked)["GoMod"]).read_text())
    folder = OTHERS / minor
    folder.mkdir(exist_ok=True)
    (folder / "go.mod").write_text(text)
    (folder / "go.sum").unlink(missing_ok=True)
    source = folder / "main.go"
    if not source.is_symlink():
        source.symlink_to("../main.go")
    tell(f"resolving the modules of Kubernetes {release}")
    _go(go, folder, "mod", "tidy")


def module_text(release: str, upstream: str) -> str:
    """go.mod of our module before `go mod tidy`, from the go.mod of the release."""
    staged = re.findall(r"^\s+(k8s\.io/\S+) => \./staging/", upstream, re.MULTILINE)
    go = re.search(r"^go (\S+)$", upstream, re.MULTILINE)
    if go is None or not staged:
        raise LockError(f"go.mod of k8s.io/kubernetes {release} names no Go version or no staging modules")
    staging_release = release.replace("v1.", "v0.", 1)
    return _HEAD.format(
        minor=_minor(release),
        release=release,
        go=go[1],
        go_minor=".".join(go[1].split(".")[:2]),
        replacements="\n".join(f"\t{name} => {name} {staging_release}" for name in sorted(set(staged))),
    )


def _minor(release: str) -> str:
    return ".".join(map(str, parse_version(release)[:2]))


def _go(go: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [go, *arguments], cwd=folder, env=build_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise LockError(f"go {' '.join(arguments)}: {done.stderr}")
    return done.stdout
