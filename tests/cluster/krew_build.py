"""krew, kubectl's plugin manager: built once per set of pins, as the control plane is (`build.py`).

TEST_ASSET_KREW names a program to use instead.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.cluster.assets import given_program
from tests.cluster.build import compile_package, key_of
from tests.cluster.once import made_once, user_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MODULE: Final = Path(__file__).parent / "krew"
_PACKAGE: Final = "sigs.k8s.io/krew/cmd/krew"
_FLAGS: Final = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=-dwarf=false", "-ldflags=-s -w"]


def find_krew(tell: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> Path:
    """The path of krew; builds it if these pins were not built before."""
    if given := given_program("krew", environment):
        return given

    def compile_it(folder: Path) -> None:
        tell("building krew: once, half a minute on 2 cores")
        compile_package(MODULE, _PACKAGE, _FLAGS, folder / "krew", tell)

    return made_once(user_cache() / "krew" / key_of(MODULE, _FLAGS), compile_it, tell) / "krew"
