"""The plugin as a user gets it: krew installs the archive, and a real kubectl runs it."""

import hashlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from platform import machine as machine_name

import pytest
import yaml

from tests.cluster.webhook_process import PROGRAM
from tests.release.distributions import build, run
from tests.release.krew_plugin import PLATFORMS, PYTHONS, SOURCE, Platform, build_archive, write_manifest
from tests.release.version import ROOT, version

PYTHON = "{}.{}".format(*sys.version_info)
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine_name())
TREE = ("tree", "--cluster", "examples/snapshots/cluster.yaml", "-o", "json")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive for this machine, with the libraries for the Python that runs the tests alone."""
    mine = [each for each in PLATFORMS if (each.os, each.arch) == (sys.platform, MACHINE)]
    if not mine or PYTHON not in PYTHONS:
        pytest.skip("the plugin is not made for this machine")
    dist = tmp_path_factory.mktemp("dist")
    return build_archive(dist, tmp_path_factory.mktemp("plugin"), build(dist), version(), mine[0], [PYTHON])


@pytest.fixture(scope="module")
def manifest(archive: Path) -> Path:
    mine = next(each for each in PLATFORMS if (each.os, each.arch) == (sys.platform, MACHINE))
    return write_manifest(archive.parent, version(), [(mine, archive)], "https://downloads.example")


@pytest.fixture(scope="module")
def environment(
    archive: Path, manifest: Path, programs: Mapping[str, Path], krew: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, str]:
    """Variables with which kubectl finds krew, and the plugin that krew has installed."""
    root, folder = tmp_path_factory.mktemp("krew"), tmp_path_factory.mktemp("bin")
    for name, program in (("kubectl", programs["kubectl"]), ("kubectl-krew", krew), ("python3", sys.executable)):
        (folder / name).symlink_to(program)
    variables = {"PATH": f"{root}/bin:{folder}:/usr/bin:/bin", "KREW_ROOT": str(root), "HOME": str(root)}
    # With --manifest krew fetches no index; this keeps it from asking for its own newest version.
    variables["KREW_NO_UPGRADE_CHECK"] = "1"
    kubectl(variables, "krew", "install", f"--manifest={manifest}", f"--archive={archive}")
    return variables


def kubectl(variables: Mapping[str, str], *arguments: str) -> str:
    done = subprocess.run(["kubectl", *arguments], env=variables, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_runs_the_plugin_that_krew_installed(environment: Mapping[str, str]) -> None:
    assert kubectl(environment, "topology", *TREE) == run(PROGRAM, *TREE)
    assert kubectl(environment, "topology", "--version") == f"topology-webhook {version()}\n"


def test_the_caveats_set_up_completion(environment: Mapping[str, str], manifest: Path) -> None:
    caveats = yaml.safe_load(manifest.read_text())["spec"]["caveats"]
    lines = "\n".join(line for line in caveats.splitlines() if line.startswith("  "))
    # The documented folder is that of krew's default root.
    subprocess.run(["sh", "-ec", lines.replace("~/.krew", "$KREW_ROOT")], env=environment, check=True)
    assert kubectl(environment, "__complete", "topology", "wai").startswith("waiting\t")


def test_without_a_supported_python_the_launcher_says_so(tmp_path: Path) -> None:
    (tmp_path / "lib" / "3.11").mkdir(parents=True)
    launcher = tmp_path / "kubectl-topology"
    launcher.write_bytes((SOURCE / launcher.name).read_bytes())
    for name in ("dirname", "readlink"):
        program = shutil.which(name)
        assert program is not None
        (tmp_path / name).symlink_to(program)
    done = subprocess.run(
        ["/bin/sh", launcher], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: kubectl topology needs one of these versions of Python on PATH: 3.11\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("platform", "machine"), [(each, {"amd64": 7, "arm64": 12}[each.arch]) for each in PLATFORMS if each.os == "darwin"]
)
def test_an_archive_for_macos_has_its_libraries_and_none_of_the_server(
    platform: Platform, machine: int, tmp_path: Path
) -> None:
    (tmp_path / "scratch").mkdir()
    packed = build_archive(tmp_path, tmp_path / "scratch", build(tmp_path), version(), platform, [PYTHON])
    with tarfile.open(packed) as archive:
        names = archive.getnames()
        libraries = [archive.extractfile(name) for name in names if name.endswith(".so")]
        # A Mach-O file of 64 bits: its magic number, then the type of CPU and the bit for 64.
        starts = {struct.unpack("<II", library.read(8)) for library in libraries if library is not None}
    thin, universal = (0xFEEDFACF, 0x01000000 + machine), 0xBEBAFECA
    assert {start for start in starts if start[0] != universal} == {thin}
    assert f"lib/{PYTHON}/numpy/__init__.py" in names
    assert not any(re.search("/(cryptography|uvloop)/", name) for name in names)


def test_the_manifest_is_what_krews_index_asks_for(tmp_path: Path) -> None:
    archives = []
    for each in PLATFORMS:
        path = tmp_path / f"{each.os}-{each.arch}.tar.gz"
        path.write_bytes(path.name.encode())
        archives.append((each, path))
    manifest = yaml.safe_load(write_manifest(tmp_path, "1.2.3", archives, "https://downloads.example").read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    spec = manifest["spec"]
    assert manifest["metadata"] == {"name": "topology"}
    assert spec["version"] == "v1.2.3"
    assert len(spec["shortDescription"]) <= 50
    assert [each["selector"]["matchLabels"] for each in spec["platforms"]] == [
        {"os": "linux", "arch": "amd64"},
        {"os": "linux", "arch": "arm64"},
        {"os": "darwin", "arch": "amd64"},
        {"os": "darwin", "arch": "arm64"},
    ]
    assert spec["platforms"][0]["uri"] == "https://downloads.example/linux-amd64.tar.gz"
    assert spec["platforms"][0]["sha256"] == hashlib.sha256(b"linux-amd64.tar.gz").hexdigest()


def test_the_description_names_the_commands_that_write() -> None:
    cli = ROOT / "webhook" / "cli"
    # A third module that writes pods needs a place in the description. The service's own are not among them.
    assert len([path for path in cli.rglob("*.py") if "PodWrites(" in path.read_text()]) == 2  # defrag, ungate
    description = yaml.safe_load((SOURCE / "topology.yaml").read_text())["spec"]["description"]
    assert "Only defrag --apply and ungate write to the cluster." in description


def test_the_plugin_supports_the_versions_of_python_that_the_service_does() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert list(PYTHONS) == [oldest.removeprefix(">="), *workflow["jobs"]["python"]["strategy"]["matrix"]["python"]]
    caveats = yaml.safe_load((SOURCE / "topology.yaml").read_text())["spec"]["caveats"]
    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]} " in caveats
    launcher = (SOURCE / "kubectl-topology").read_text()
    assert f"for python in python3 {' '.join(f'python{each}' for each in reversed(PYTHONS))}; do" in launcher
