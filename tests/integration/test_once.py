"""A folder that is filled once is complete or absent, even with two builders and with one that is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.once import made_once, user_cache

ROOT = Path(__file__).parents[2]
# Appends to a file next to the folder what it does, so that the order of two builders can be read.
BUILDER = """
import sys
from pathlib import Path
from tests.cluster.once import made_once
folder = Path(sys.argv[1])
def make(partial):
    print("making", flush=True)
    (partial / "first").write_text("1")
    sys.stdin.readline()
    (partial / "second").write_text("2")
made_once(folder, make, lambda line: print(line, flush=True))
"""


def builder(folder: Path) -> subprocess.Popen[str]:
    """A builder that finishes on demand."""
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, folder], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def next_line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline()


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_two_builds_at_once_build_once(tmp_path: Path) -> None:
    with builder(tmp_path / "built") as first, builder(tmp_path / "built") as second:
        said = {next_line(each): each for each in (first, second)}
        waits, makes = sorted(said)
        assert waits.startswith("another program is making")
        assert makes == "making\n"
        said[makes].communicate("\n", timeout=30)
        output, _ = said[waits].communicate(timeout=30)
        assert output == ""
    assert first.returncode == second.returncode == 0
    assert contents(tmp_path / "built") == ["first", "second"]


def test_a_build_that_was_killed_half_way_leaves_nothing_that_looks_finished(tmp_path: Path) -> None:
    with builder(tmp_path / "built") as killed:
        assert next_line(killed) == "making\n"
        killed.kill()
    assert not (tmp_path / "built").exists()
    with builder(tmp_path / "built") as next_one:
        next_one.communicate("\n", timeout=30)
    assert contents(tmp_path / "built") == ["first", "second"]
    assert contents(tmp_path) == ["built", "built.lock"]


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("out of disk")

    with pytest.raises(RuntimeError, match="out of disk"):
        made_once(tmp_path / "built", fail, print)
    assert contents(tmp_path) == ["built.lock"]


def test_what_is_there_is_not_built_again(tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()

    def never(_folder: Path) -> None:
        raise AssertionError

    assert made_once(tmp_path / "built", never, print) == tmp_path / "built"


def test_the_cache_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache() == tmp_path / "topology-webhook"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/ignored")
    assert user_cache() == Path.home() / ".cache" / "topology-webhook"
