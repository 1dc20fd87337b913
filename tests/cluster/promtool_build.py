"""promtool, which checks the chart's alerts: built once per set of pins, as the control plane is (`build.py`).

TEST_ASSET_PROMTOOL names a program to use instead.
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

MODULE: Final = Path(__file__).parent / "promtool"
_PACKAGE: Final = "github.com/prometheus/prometheus/cmd/promtool"
# Without service discovery, whose clients of all clouds are most of the code.
_FLAGS: Final = [
    "-trimpath",
    "-buildvcs=false",
    "-mod=readonly",
    "-tags=remove_all_sd",
    "-gcflags=all=-dwarf=false",
    "-ldflags=-s -w",
]


def find_promtool(tell: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> Path:
    """The path of promtool; builds it if these pins were not built before."""
    if given := given_program("promtool", environment):
        return given

    def compile_it(folder: Path) -> None:
        tell("building promtool: once, 1 to 2 minutes on 2 cores")
        compile_package(MODULE, _PACKAGE, _FLAGS, folder / "promtool", tell)

    return made_once(user_cache() / "promtool" / key_of(MODULE, _FLAGS), compile_it, tell) / "promtool"
