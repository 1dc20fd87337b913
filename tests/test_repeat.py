"""`python -m tests.repeat`: what fails in any round is told, and nothing is left behind."""

import subprocess
import sys
from pathlib import Path

from tests.repeat import ROOT, failed

# Fails in its second round, because of the seed, and says which processes keep cores busy beside it.
TINY = """
import os
from pathlib import Path

def test_sound():
    lines = [line.read_bytes() for line in Path("/proc").glob("[0-9]*/cmdline")]
    busy = {line.split(b"\\0")[-2].decode() for line in lines if b"while True: pass" in line}
    Path(__file__).with_name("busy").write_text("\\n".join(busy))

def test_hasty():
    print("what it printed")
    assert os.environ["TOPOLOGY_WEBHOOK_TEST_SEED"] != "2", "too late"
"""


def repeat(*arguments: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.repeat", *map(str, arguments)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def alive(folder: str) -> list[Path]:
    return [line for line in Path("/proc").glob("[0-9]*/cmdline") if folder.encode() in line.read_bytes()]


def test_a_test_that_fails_in_one_round_is_told_with_its_seed_and_log_and_all_processes_end(tmp_path: Path) -> None:
    tiny = tmp_path / "test_tiny.py"
    tiny.write_text(TINY)
    done = repeat("--rounds", 2, "--load", 1, tiny)
    assert done.returncode == 1, done.stderr
    (told,) = [line for line in done.stderr.splitlines() if " FAILED " in line]
    assert "test_tiny.py::test_hasty seed=2 log=" in told
    log = Path(told.partition("log=")[2])
    assert "too late" in log.read_text()
    assert "failed in 1 of 2 rounds" in done.stderr
    log.unlink()
    log.parent.rmdir()  # nothing else is in it
    folders = (tmp_path / "busy").read_text().split()
    assert folders
    assert not [folder for folder in folders if str(tmp_path) in folder and alive(folder)]


def test_rounds_without_a_failure_end_with_0(tmp_path: Path) -> None:
    tiny = tmp_path / "test_tiny.py"
    tiny.write_text(TINY)
    done = repeat("--rounds", 1, tiny)
    assert done.returncode == 0, done.stderr
    assert "no test failed" in done.stderr


def test_a_round_without_a_result_is_a_failure(tmp_path: Path) -> None:
    done = repeat("--rounds", 1, tmp_path / "test_absent.py")
    assert done.returncode == 1
    assert "test_absent.py" in done.stderr


def test_wrong_use_ends_with_2() -> None:
    assert repeat("--rounds", 0).returncode == 2
    assert repeat("--rounds", 1, "--only", "nothing").returncode == 2


def test_errors_of_fixtures_are_failures(tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    results.write_text(
        '<testsuites><testsuite><testcase file="tests/test_a.py" name="test_a[x]">'
        '<error message="failed on setup">the log</error></testcase>'
        '<testcase file="tests/test_a.py" name="test_b"><skipped/></testcase></testsuite></testsuites>'
    )
    (failure,) = failed(results)
    assert failure.test == "tests/test_a.py::test_a[x]"
    assert failure.log == "failed on setup\nthe log"
