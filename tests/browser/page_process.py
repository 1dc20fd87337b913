"""`topology-webhook page` as a process."""

from __future__ import annotations

import contextlib
import re
import subprocess
from typing import TYPE_CHECKING

from tests.cluster.webhook_process import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def page_of(*arguments: str) -> Iterator[str]:
    """The address of a page that these arguments start, without a slash at its end."""
    process = subprocess.Popen(
        [PROGRAM, "page", "--port", "0", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:  # what is odd about the cluster is logged first
            lines.append(line)
            if found := re.search(r"(http://\S+)/ ", line):
                break
        else:
            raise AssertionError("".join(lines))
        yield found[1]
    finally:
        process.terminate()
        process.wait(timeout=30)
        assert process.stdout is not None
        process.stdout.close()
