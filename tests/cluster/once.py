"""Folders that are filled once, even if several programs need them at the same time or one of them is killed.

1. A finished folder is used as it is.
2. Otherwise one program at a time (file lock, released by the kernel when its holder dies) fills a folder beside it.
3. The full folder gets its final name in one rename: a folder of that name is always complete.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def user_cache() -> Path:
    """This project's part of the user's cache folder (XDG base directory specification)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification: a relative path is invalid and ignored.
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "topology-webhook"


def made_once(folder: Path, make: Callable[[Path], None], tell: Callable[[str], None]) -> Path:
    """Return `folder`; if it does not exist, `make` fills it first. tell: called if another program is filling it."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"another program is making {folder}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        for left_over in folder.parent.glob(f"{folder.name}.partial-*"):
            shutil.rmtree(left_over)
        partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.partial-", dir=folder.parent))
        try:
            make(partial)
            partial.rename(folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return folder
