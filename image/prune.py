"""Removes from an environment what the service never loads: half of it. Run it with the environment's interpreter.

1. Import every module of the service. Python compiles what this loads, and nothing else.
2. Remove the generated modules of the Kubernetes client that were not loaded. It has one for each kind and each group
   of the API. The service sends and receives plain JSON, so it needs none of them.
3. Remove the tests of other projects.
4. Strip debug information from extension modules, most of their size. Libraries that a wheel brings along stay as they
   are: their wheels have changed them in a way that `strip` can break.

The Dockerfile runs it, and `tests/release` tests the result.
"""

import importlib
import pkgutil
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

SERVICE = ("webhook", "certs")
# Packages of generated modules, in the synchronous and the asynchronous client.
GENERATED = ("client/api", "client/models", "aio/client/api", "aio/client/models")
PACKAGES = Path(sysconfig.get_path("platlib"))


def main() -> None:
    """Prune the environment of the running interpreter, and print by how much."""
    if shutil.which("strip") is None:
        sys.exit("There is no program `strip`. Install binutils.")
    sys.dont_write_bytecode = False
    import_service()
    generated = list(unloaded(PACKAGES / "kubernetes" / package for package in GENERATED))
    if not generated:
        sys.exit(f"{PACKAGES}/kubernetes has no module to remove in {', '.join(GENERATED)}: has its layout changed?")
    print(f"removed {remove(generated):.0f} MB of generated modules of the Kubernetes client")
    print(f"removed {remove(tests()):.0f} MB of tests")
    print(f"stripped {strip(PACKAGES.rglob('*.so')):.0f} MB of debug information")


def import_service() -> None:
    """Import every module of the service."""
    for name in SERVICE:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)


def loaded() -> set[Path]:
    """The files of the modules that this process has loaded."""
    return {Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}


def unloaded(packages: Iterable[Path]) -> Iterator[Path]:
    """The modules of these packages that were not loaded."""
    keep = loaded()
    return (path for package in packages for path in package.glob("*.py") if path not in keep)


def tests() -> Iterator[Path]:
    """The files of packages that are named tests, unless one of them was loaded."""
    needed = {parent for path in loaded() for parent in path.parents}
    folders = (path for path in PACKAGES.rglob("tests") if path not in needed)
    return (path for folder in folders for path in folder.rglob("*") if path.is_file())


def remove(files: Iterable[Path]) -> float:
    """Remove files. Returns their size in MB."""
    size = 0
    for path in list(files):
        size += path.stat().st_size
        path.unlink()
    return size / 1e6


def strip(modules: Iterable[Path]) -> float:
    """Strip extension modules, each into a new file: the old one may be a link to an installer's cache. Returns MB."""
    size = 0
    for path in list(modules):
        if not any(folder.name.endswith(".libs") for folder in path.parents):
            smaller = path.with_suffix(".stripped")
            subprocess.run(["strip", "--strip-debug", "-o", smaller, path], check=True)  # noqa: S603, S607 # build tool
            shutil.copymode(path, smaller)
            size += path.stat().st_size - smaller.stat().st_size
            smaller.replace(path)
    return size / 1e6


if __name__ == "__main__":
    main()
