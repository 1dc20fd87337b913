"""The steps by which the release workflow publishes, run on this machine: its own scripts, in its order.

1. A registry in memory takes the chart: helm pushes it as in the workflow, and it is pulled and compared.
2. uv examines both distributions as for an upload, and uploads nothing.
3. Where the workflow signs or writes the release page, stand-ins examine what they are given: that a digest is signed,
   and that each file of the release page exists once.

Not tried are the steps that are actions of others (`Publishing.left_out`): logins, the image's build and push, and
attestations. The image is built by tests/release/test_image.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from tests.cluster.build import compile_package, key_of
from tests.cluster.once import made_once, user_cache
from tests.cluster.ports import free_port
from tests.cluster.process import Process
from tests.release.distributions import UV, CommandFailedError
from tests.release.version import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

WORKFLOW: Final = ROOT / ".github" / "workflows" / "release.yml"
_MODULE: Final = Path(__file__).parent / "registry"
_PACKAGE: Final = "github.com/google/go-containerregistry/cmd/registry"
_FLAGS: Final = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w"]
_DIGEST: Final = "sha256:" + "0" * 64
# Programs of the steps that nothing here can be, each with what it is given by the workflow.
_STAND_INS: Final = {
    "make": "true",
    "cosign": """
for last; do :; done
[[ $last =~ @sha256:[0-9a-f]{64}$ ]] || { echo "cosign: $last is not named by a digest" >&2; exit 1; }
""",
    "gh": """
[[ "$1 $2" == "release create" ]] || exit 1
files=()
for each in "${@:4}"; do
  case $each in
    --verify-tag | --notes-file) ;;
    *) [[ -s $each ]] || { echo "gh: $each does not exist" >&2; exit 1; }; files+=("${each##*/}") ;;
  esac
done
(IFS=$'\\n'; [[ -z $(sort <<<"${files[*]:1}" | uniq -d) ]])
""",
}


class Step(NamedTuple):
    """A step with a script, and how GitHub would call it."""

    name: str
    script: str
    environment: Mapping[str, str]


class Publishing:
    """The publishing jobs of the workflow. image: as the release names it."""

    def __init__(self, tag: str, image: str) -> None:
        jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
        steps = [step for name in ("image", "publish") for step in jobs[name]["steps"]]
        self.left_out: Final = [str(step["uses"]).partition("@")[0] for step in steps if "run" not in step]
        self._values = {"env.IMAGE": image, "github.token": "none", "vars.PACKAGE_INDEX": "http://127.0.0.1:9/legacy/"}
        self._values |= {"steps.push.outputs.digest": _DIGEST, "github.ref_name": tag}
        self._tag, self._image = tag, image
        self.steps: Final = [self._step(step) for step in steps if "run" in step]

    def _step(self, step: Mapping[str, Any]) -> Step:
        environment = {name: self._evaluated(str(text)) for name, text in step.get("env", {}).items()}
        if "${{" in step["run"]:
            raise CommandFailedError(f"a script of {WORKFLOW.name} has an expression: pass it by env\n{step['run']}")
        return Step(str(step.get("name", step["run"].splitlines()[0])), step["run"], environment)

    def _evaluated(self, text: str) -> str:
        """The text with the values of its expressions. Raises for one that no dry run knows."""

        def value(match: re.Match[str]) -> str:
            if match[1] not in self._values:
                raise CommandFailedError(f"{WORKFLOW.name}: no dry run knows the value of {match[1]}")
            return self._values[match[1]]

        return re.sub(r"\$\{\{ (.*?) \}\}", value, text)

    def run(self, dist: Path, scratch: Path, helm: Path, tell: Callable[[str], None]) -> None:
        """Run all steps on the files in `dist`. scratch: an empty folder. Raises CommandFailedError."""
        programs = scratch / "programs"
        for folder in (programs, scratch / ".venv" / "bin"):
            folder.mkdir(parents=True)
        (scratch / "dist").symlink_to(dist)
        for name, script in _STAND_INS.items():
            _write(programs / name, script)
        # The registry speaks no TLS. uv asks for no identity, and uploads nothing.
        _write(programs / "helm", f'exec "{helm}" "$@" --plain-http')
        _write(scratch / ".venv" / "bin" / "uv", f'exec "{UV}" "${{@/always/never}}" --dry-run --token none')
        with _registry(scratch, tell) as host:
            environment = {
                **os.environ,
                "PATH": f"{programs}:{os.environ['PATH']}",
                "HOME": str(scratch),
                "GITHUB_REF_NAME": self._tag,
                "GITHUB_ENV": str(scratch / "env"),
                "VERSION": self._tag.removeprefix("v"),
                "IMAGE": self._image,
                "CHARTS": f"{host}/charts",
            }
            for step in self.steps:
                tell(f"as the workflow publishes: {step.name}")
                # As GitHub calls a script for which no shell is named.
                _run(["bash", "-e", "-c", step.script], {**environment, **step.environment}, scratch)
            pulled = ["pull", f"oci://{host}/charts/topology-webhook", "--version", environment["VERSION"]]
            _run([str(programs / "helm"), *pulled], environment, scratch)
        (archive,) = dist.glob("topology-webhook-*.tgz")
        if (scratch / archive.name).read_bytes() != archive.read_bytes():
            raise CommandFailedError(f"the registry returns another {archive.name} than was pushed")


def _write(path: Path, script: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\nset -euo pipefail\n{script}\n")
    path.chmod(0o755)


def _run(command: list[str], environment: Mapping[str, str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandFailedError(f"{command[-1]}\n{done.stdout}{done.stderr}")


def find_registry(tell: Callable[[str], None]) -> Path:
    """The registry; builds it if these pins were not built before."""

    def compile_it(folder: Path) -> None:
        tell("building a registry of images: once, a few seconds")
        compile_package(_MODULE, _PACKAGE, _FLAGS, folder / "registry", tell)

    return made_once(user_cache() / "registry" / key_of(_MODULE, _FLAGS), compile_it, tell) / "registry"


@contextmanager
def _registry(folder: Path, tell: Callable[[str], None]) -> Iterator[str]:
    """Run a registry, and yield its host and port."""
    port = free_port()
    process = Process("registry", [find_registry(tell), f"-port={port}"], folder / "registry.log")
    try:
        for _ in range(100):
            process.require_running()
            if _answers(f"http://127.0.0.1:{port}/v2/"):
                break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.stop()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own
            return True
    except OSError:
        return False
