"""Build the control plane from the Go modules beside this file: once per set of pins, then from the user's cache.

`controlplane` is everything that tests run, with the default version of Kubernetes. The modules of `kubernetes` are the
control planes of other versions (versions.py) and nothing else.

1. The key: a hash of everything that decides the result (go.mod, go.sum, our Go sources, the flags, the platform).
   Not the compiler's version: a newer Go does not change the Kubernetes under test, and a build takes minutes.
2. A folder with that key in the user's cache is used as it is.
3. Else `go build` compiles one program that is all components, and a link per component gives it their names.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.once import made_once, user_cache
from tests.cluster.process import Process
from tests.cluster.toolchain import go_compiler, parse_version
from tests.cluster.versions import MODULE, SIMULATED, module_of, pinned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

COMPONENTS = (
    "etcd",
    "helm",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "kubelets",
    "node-runtime",
    "noop-webhook",
    "pod-load",
)
KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
"""The components that are built for other versions, too."""
PROGRESS_SECONDS = 10.0


class BuildFailedError(RuntimeError):
    """`go build` failed. The message holds its output."""


def build(tell: Callable[[str], None]) -> Path:
    """The folder that holds every program of `COMPONENTS`. Builds them if these pins were not built before.

    `tell` gets a line of progress every few seconds.
    """
    return _built(MODULE, COMPONENTS, "etcd and helm: once, 4 to 5 minutes on 2 cores", tell)


def build_kubernetes(version: str, tell: Callable[[str], None]) -> Path:
    """The same for the programs of `KUBERNETES` in a version of `versions`."""
    if version == SIMULATED:
        return build(tell)
    return _built(module_of(version), KUBERNETES, "once, about 4 minutes on 2 cores", tell)


def key(module: Path = MODULE) -> str:
    """16 hex digits that change whenever the programs built from this module would."""
    return key_of(module, build_flags(module))


def key_of(module: Path, flags: list[str]) -> str:
    """The same for any Go module that is built with these flags."""
    digest = hashlib.sha256()
    for source in sorted([*module.rglob("*.go"), module / "go.mod", module / "go.sum"]):
        digest.update(str(source.relative_to(module)).encode() + b"\0" + hashlib.sha256(source.read_bytes()).digest())
    digest.update(repr((flags, platform.system(), platform.machine())).encode())
    return digest.hexdigest()[:16]


def build_flags(module: Path = MODULE) -> list[str]:
    """The flags of `go build`.

    `-dwarf=false` skips the debug information that the linker would drop anyway because of `-s -w` (a seventh of the
    compile time). The versions are set as in upstream releases; else the API server calls itself v0.0.0-master.
    """
    versions = {"k8s.io/component-base/version.gitVersion": pinned("k8s.io/kubernetes", module)}
    if module == MODULE:
        versions["helm.sh/helm/v4/internal/version.version"] = pinned("helm.sh/helm/v4")
    linker = ["-s", "-w", *(f"-X {name}={version}" for name, version in versions.items())]
    return [
        "-trimpath",
        "-buildvcs=false",
        "-mod=readonly",
        "-gcflags=all=-dwarf=false",
        f"-ldflags={' '.join(linker)}",
    ]


def build_environment() -> Mapping[str, str]:
    """The caller's environment without the variables that would change the result.

    GOGC stays as it is: the compiler rarely collects its heap already, and a higher value gained nothing.
    """
    return os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _built(module: Path, components: Sequence[str], what: str, tell: Callable[[str], None]) -> Path:
    def compile_it(folder: Path) -> None:
        tell(f"building Kubernetes {pinned('k8s.io/kubernetes', module)}, {what}")
        program = folder / "controlplane"
        compile_package(module, ".", build_flags(module), program, tell)
        for component in components:
            (folder / component).symlink_to(program.name)

    return made_once(user_cache() / "control-plane" / key(module), compile_it, tell)


# What `go build -v` prints for a compiled package: its path, without a space or a position in a file.
_PACKAGE = re.compile(r"[\w.~/-]+")


def compile_package(
    module: Path, package: str, flags: list[str], program: Path, tell: Callable[[str], None], *, cgo: bool = False
) -> None:
    """Compile a package of a Go module into `program`; cgo: with a C compiler. Raises `BuildFailedError`."""
    go = go_compiler(parse_version(pinned("go", module)), tell)
    environment = {**build_environment(), "CGO_ENABLED": str(int(cgo))}
    start = time.monotonic()
    tell(f"fetching the Go modules with {go}")
    tags = [flag for flag in flags if flag.startswith("-tags=")]
    listing = subprocess.run(
        [go, "list", *tags, "-deps", package], cwd=module, env=environment, capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        raise BuildFailedError(listing.stderr)
    packages = len(listing.stdout.splitlines())
    with tempfile.TemporaryDirectory() as scratch:
        compiler = Process(
            "go build",
            [go, "build", "-v", *flags, "-o", program, package],
            Path(scratch) / "log",
            env=environment,
            cwd=module,
        )
        try:
            _report_progress(compiler, packages, tell)
        finally:
            compiler.stop()
        if compiler.exit_code != 0:
            raise BuildFailedError(compiler_errors(compiler.log.read_text(errors="replace")))
    tell(f"built {program.stat().st_size / 1e6:.0f} MB in {_clock(time.monotonic() - start)}")


def compiler_errors(log: str) -> str:
    """What `go build -v` says of errors: without the names of the packages that it compiled, one a line.

    Packages are compiled in parallel, so errors may stand above hundreds of names. Cut to the last 16,000 characters.
    """
    lines = [line for line in log.splitlines() if not _PACKAGE.fullmatch(line)]
    return "\n".join(lines)[-16_000:] or log[-16_000:]


def _report_progress(compiler: Process, packages: int, tell: Callable[[str], None]) -> None:
    """Report progress every few seconds: `go build -v` prints one line per package, and none for cached ones."""
    start = time.monotonic()
    while True:
        try:
            compiler.wait(PROGRESS_SECONDS)
        except subprocess.TimeoutExpired:
            compiled = compiler.log.read_bytes().count(b"\n")
            tell(f"compiled {compiled} of {packages} packages ({_clock(time.monotonic() - start)})")
        else:
            return


def _clock(seconds: float) -> str:
    """Minutes and seconds: 4:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
