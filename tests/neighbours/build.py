"""Build a component of another project from its Go module: once per set of pins, as the control plane is.

The module of ours beside this file only pins versions. The program is the project's own main package, and the manifests
are those of its module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.cluster.build import BuildFailedError, compile_package, key_of
from tests.cluster.module_files import copy_folder, folder_of_module
from tests.cluster.once import made_once, user_cache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.neighbours.catalogue import Neighbour

_FLAGS: Final = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=-dwarf=false"]


class NeighbourFiles(NamedTuple):
    """A built component."""

    neighbour: Neighbour
    programs: Path
    """The folder of its programs."""
    manifests: Path
    """The folder that holds the copied folders of its project's module."""

    @property
    def program(self) -> Path:
        """Its main program."""
        return self.programs / self.neighbour.name


def find_neighbour(neighbour: Neighbour, tell: Callable[[str], None]) -> NeighbourFiles:
    """The program and the manifests; builds them if these pins were not built before. Raises `BuildFailedError`."""
    linker = " ".join(["-s", "-w", *(f"-X {variable}" for variable in neighbour.variables)])
    tags = [f"-tags={','.join(neighbour.tags)}"] if neighbour.tags else []
    flags = [*_FLAGS, f"-ldflags={linker}", *tags]
    programs = neighbour.programs()

    def compile_it(folder: Path) -> None:
        if neighbour.header and neighbour.header.missing:
            raise BuildFailedError(
                f"{neighbour.name} needs {neighbour.header.path} (package {neighbour.header.package})"
            )
        tell(f"building {neighbour.name} {neighbour.version}: once, several minutes on 2 cores")
        for name, package in programs.items():
            compile_package(neighbour.module, package, flags, folder / name, tell, cgo=neighbour.header is not None)
        source = folder_of_module(neighbour.upstream, neighbour.module, tell)
        for name in neighbour.copied:
            copy_folder(source / name, folder / "manifests" / name)

    parts = [*flags, neighbour.package, *neighbour.further, *neighbour.copied]
    folder = made_once(user_cache() / "neighbours" / key_of(neighbour.module, parts), compile_it, tell)
    return NeighbourFiles(neighbour, folder, folder / "manifests")
