"""The components of other projects that can be built here. Each has a Go module in `modules`, which pins its version.

Their Kubernetes versions differ, so no two share a module.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.cluster.versions import pinned

if TYPE_CHECKING:
    from collections.abc import Mapping

MODULES: Final = Path(__file__).parent / "modules"
_INCLUDES: Final = (Path("/usr/include"), Path("/usr/local/include"))


class Header(NamedTuple):
    """A header of a C library that a component needs."""

    path: str
    """Below an include folder."""
    package: str
    """The Debian package that has it."""

    @property
    def missing(self) -> bool:
        return not any((folder / self.path).exists() for folder in _INCLUDES)


@dataclass(frozen=True)
class Neighbour:
    """A component of another project."""

    name: str
    """The folder of its Go module in `modules`."""
    upstream: str
    """Its project's Go module."""
    package: str
    """Its main package, below the project's module."""
    further: tuple[str, ...] = ()
    """Further main packages, each a program with the name of its folder."""
    copied: tuple[str, ...] = ()
    """Folders of the project's module that hold its manifests."""
    tags: tuple[str, ...] = ()
    """Build tags: they limit a program to what is used here."""
    header: Header | None = None
    """If it is compiled with cgo."""
    variables: tuple[str, ...] = ()
    """Variables that the linker sets, as the project's own build does: `package.name=value`."""

    @property
    def module(self) -> Path:
        """The Go module that pins it."""
        return MODULES / self.name

    @property
    def version(self) -> str:
        """The version that go.mod requires: v0.10.1."""
        return pinned(self.upstream, self.module)

    def programs(self) -> Mapping[str, str]:
        """Its programs by name, with their packages. The main one has the name of the component."""
        names = {self.name: self.package, **{PurePosixPath(each).name: each for each in self.further}}
        return {name: f"{self.upstream}/{package}".rstrip("/") for name, package in names.items()}


JOBSET: Final = Neighbour("jobset", "sigs.k8s.io/jobset", "", copied=("config",))
LWS: Final = Neighbour("lws", "sigs.k8s.io/lws", "cmd", copied=("config",))
KUBERAY: Final = Neighbour("kuberay", "github.com/ray-project/kuberay/ray-operator", "", copied=("config",))
TRAINER: Final = Neighbour(
    "trainer", "github.com/kubeflow/trainer/v2", "cmd/trainer-controller-manager", copied=("manifests",)
)
KUEUE: Final = Neighbour("kueue", "sigs.k8s.io/kueue", "cmd/kueue", copied=("config",))
SCHEDULER_PLUGINS: Final = Neighbour(
    "scheduler-plugins",
    "sigs.k8s.io/scheduler-plugins",
    "cmd/scheduler",
    copied=("manifests/install/charts", "config/crd/bases"),
)
KAI: Final = Neighbour(
    "kai",
    "github.com/NVIDIA/KAI-scheduler",
    "cmd/scheduler",
    further=("cmd/binder", "cmd/podgrouper"),
    copied=("deployments/kai-scheduler",),
)
NFD: Final = Neighbour(
    "nfd",
    "sigs.k8s.io/node-feature-discovery",
    "cmd/nfd-topology-updater",
    copied=("deployment",),
    # its image has /host-, where its DaemonSet mounts the node's folders; here each process has a node of its own
    variables=("sigs.k8s.io/node-feature-discovery/pkg/utils/hostpath.pathPrefix=/proc/self/cwd/host-",),
)
RTE: Final = Neighbour(
    "rte",
    "github.com/k8stopologyawareschedwg/resource-topology-exporter",
    "cmd/resource-topology-exporter",
    copied=("manifests",),
)
KOORDLET: Final = Neighbour(
    "koordlet",
    "github.com/koordinator-sh/koordinator",
    "cmd/koordlet",
    copied=("config",),
    header=Header("perfmon/pfmlib.h", "libpfm4-dev"),
)

CLUSTER_AUTOSCALER: Final = Neighbour(
    "cluster-autoscaler",
    "k8s.io/autoscaler/cluster-autoscaler",
    "",
    copied=("cloudprovider/aws/examples",),
    # of its cloud providers only the one that creates Node objects
    tags=("kwok",),
)
KARPENTER: Final = Neighbour("karpenter", "sigs.k8s.io/karpenter", "kwok", copied=("kwok/charts", "kwok/apis/crds"))


CATALOGUE: Final = {
    each.name: each
    for each in (
        JOBSET,
        LWS,
        KUBERAY,
        TRAINER,
        KUEUE,
        SCHEDULER_PLUGINS,
        KAI,
        NFD,
        RTE,
        CLUSTER_AUTOSCALER,
        KARPENTER,
        KOORDLET,
    )
}
