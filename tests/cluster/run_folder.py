"""A folder for one run, removed at its end; if the run was killed, at the start of the next run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN_PREFIX = "topology-webhook-run-"


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """A new folder, removed on exit; folders of runs that were killed are removed first.

    A run holds a lock on its folder until it ends. So the run of a folder that can be locked has ended.
    """
    parent = Path(tempfile.gettempdir())
    for left_over in parent.glob(f"{RUN_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(left_over):
            shutil.rmtree(left_over)
    with contextlib.ExitStack() as stack:
        folder = _new_locked_folder(parent, stack)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _new_locked_folder(parent: Path, stack: contextlib.ExitStack) -> Path:
    """A new folder whose lock is held until the stack unwinds."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=RUN_PREFIX, dir=parent))
        # Before it is locked, another run may take it for a leftover folder and lock or remove it.
        with contextlib.suppress(OSError):
            stack.enter_context(_locked(folder))
            if folder.is_dir():
                return folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. Raises `BlockingIOError` if another run holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
