"""Freed arrays stay in the process: using their memory again causes no page faults."""

import os
import platform
import subprocess
import sys

import pytest

# Eight arrays of 3 MiB, as in one decision over 50,000 nodes: 6,144 pages each time.
_PROGRAM = """
import resource, sys
import numpy as np
from webhook.app.main import keep_freed_memory

if "keep" in sys.argv:
    keep_freed_memory()

def decide():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.full(3 * 2**20, 1, dtype=np.uint8) for _ in range(8)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

decide()
print(max(decide() for _ in range(5)))
"""


def _page_faults(*arguments: str) -> int:
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    # The environment could change the allocator, too.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=300)
    return int(ran.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no other C library knows it")
def test_freed_arrays_are_used_again_without_page_faults() -> None:
    # Few, where the default has thousands: the interpreter itself may need a page.
    assert _page_faults("keep") < 64
    assert _page_faults() > 1000
