"""Programs that see folders of ours where they look for those of their node, because no flag moves these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.real_kubelets import namespaces

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def mounted(binds: Mapping[str, Path]) -> list[str]:
    """A command that runs a program with these folders in these places, for which it makes a mount namespace."""
    mounts = " && ".join(f"mount --bind {folder} {place}" for place, folder in binds.items())
    return [*namespaces(), "sh", "-c", f'{mounts} && exec "$0" "$@"']
