"""A release without the registries: what it consists of, and that what is installed from it works."""

import json
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.chart.helm import Helm
from tests.cluster import webhook_process
from tests.cluster.control_plane import ControlPlane
from tests.cluster.webhook_process import PROGRAM
from tests.release import artifacts
from tests.release.distributions import EXAMPLE, REQUIREMENTS, CommandFailedError, Installation, build, run
from tests.release.publishing import Publishing
from tests.release.version import ROOT, VersionError, notes, version

# The image is at most 250 MB (image/check); debian:trixie-slim with python3 is 120 MB of it.
MOST_BYTES = 120_000_000


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    return folder


@pytest.fixture(scope="module")
def installation(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel as the image has it: locked requirements, pruned."""
    if shutil.which("strip") is None:
        pytest.skip("image/prune.py needs binutils")
    (wheel,) = dist.glob("*.whl")
    installation = Installation(tmp_path_factory.mktemp("clean") / "venv", wheel)
    installation.prune()
    return installation


def tracked(*folders: str) -> set[str]:
    listing = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listing.stdout.split())


def test_a_build_leaves_the_two_distributions_and_nothing_else(dist: Path) -> None:
    assert sorted(path.suffix for path in dist.iterdir()) == [".gz", ".whl"]


def test_the_wheel_has_every_file_of_both_packages_and_no_other(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    files = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert files == tracked("webhook", "certs")


def test_the_source_distribution_has_what_the_wheel_is_built_from_and_no_tests(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert tracked("webhook", "certs") | {"README.md", "LICENSE", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith(("tests/", ".venv", "dist/"))]


def test_the_pruned_installation_imports_runs_and_answers_as_the_checkout_does(installation: Installation) -> None:
    installation.import_all()
    assert installation.try_out() == run(PROGRAM, *EXAMPLE)


def test_the_pruned_service_is_called_by_the_real_api_server(
    installation: Installation, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_process, "PROGRAM", installation.program)
    with webhook_process.local_webhook(control_plane) as webhook:
        assert webhook.replicas[0].program == [installation.program]
        assert webhook.is_called()


def test_the_pruned_installation_is_small_enough_for_the_image(installation: Installation) -> None:
    assert installation.size() < MOST_BYTES


def test_pruning_again_says_that_there_is_nothing_to_prune(installation: Installation) -> None:
    with pytest.raises(Exception, match="has its layout changed"):
        installation.prune()


@pytest.fixture(scope="module")
def command(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel without an extra, as pipx installs it."""
    (wheel,) = dist.glob("*.whl")
    return Installation(tmp_path_factory.mktemp("command") / "venv", wheel, REQUIREMENTS / "command.txt")


@pytest.mark.long
def test_who_only_asks_needs_no_extra(command: Installation) -> None:
    assert command.try_out() == run(PROGRAM, *EXAMPLE)
    for name in ("doctor", "page", "audit", "ungate"):
        run(command.program, name, "--help")
    assert not list(command.folder.rglob("cryptography"))


@pytest.mark.long
def test_serving_without_its_extra_is_refused_with_what_to_install(command: Installation) -> None:
    done = subprocess.run([command.program, "serve"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "serve needs the extra `server`: pip install 'topology-webhook[server]'\n"


def test_the_command_has_the_same_versions_as_the_service() -> None:
    locked = [
        set(re.findall(r"^[\w.-]+==[^\\]*", (REQUIREMENTS / name).read_text(), re.MULTILINE))
        for name in ("command.txt", "runtime.txt")
    ]
    assert locked[0] < locked[1]


def test_the_sbom_lists_every_installed_requirement_and_no_other(installation: Installation, tmp_path: Path) -> None:
    sbom = json.loads(artifacts.write_sbom(tmp_path, installation, "1.2.3").read_text())
    listed = {component["name"].lower().replace("_", "-") for component in sbom["components"]}
    locked = re.findall(r"^([\w.-]+)==[^;]*$", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE)
    assert set(locked) <= listed
    assert not {"pytest", "mypy", "uv"} & listed


@pytest.fixture(scope="module")
def package(programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart as the release publishes it."""
    arguments = "registry.example/team/topology-webhook", "https://source.example/project", version()
    return artifacts.package_chart(programs["helm"], tmp_path_factory.mktemp("chart"), *arguments)


def test_the_packaged_chart_has_every_file_of_the_chart_and_says_where_it_comes_from(package: Path) -> None:
    with tarfile.open(package) as archive:
        files = {member.name for member in archive.getmembers() if member.isfile()}
        chart = archive.extractfile("topology-webhook/Chart.yaml")
        assert chart is not None
        about = yaml.safe_load(chart)
    assert {f"charts/{name}" for name in files} == tracked("charts")
    assert about["version"] == version()
    assert about["home"] == "https://source.example/project"
    assert about["icon"] == f"https://source.example/project/raw/v{version()}/{artifacts.ICON}"
    assert (ROOT / artifacts.ICON).exists()
    assert about["maintainers"]


def test_the_packaged_chart_installs_without_a_value_and_its_service_runs(
    package: Path, control_plane: ControlPlane
) -> None:
    name = webhook_process.RELEASE
    control_plane.helm("install", name, package, "--namespace", webhook_process.NAMESPACE, "--create-namespace")
    try:
        path = f"/apis/apps/v1/namespaces/{webhook_process.NAMESPACE}/deployments/{name}"
        template = control_plane.api.get(path)["spec"]["template"]
        (container,) = template["spec"]["containers"]
        assert container["image"] == f"registry.example/team/topology-webhook:{version()}"
        replica = webhook_process.Replica(control_plane, f"{name}-packaged", template["spec"])
        try:
            replica.start(webhook_process.free_ports())
            replica.wait_until_ready()
        finally:
            control_plane.guests.pop(replica.name).kill()
    finally:
        control_plane.helm("uninstall", name, "--namespace", webhook_process.NAMESPACE, "--no-hooks")


def test_the_package_takes_another_registry_from_its_parent_and_keeps_the_path(
    package: Path, programs: Mapping[str, Path], tmp_path: Path
) -> None:
    mirror = "--set", "global.imageRegistry=mirror.example:5000"
    text = Helm(programs["helm"], tmp_path).run("template", "tw", str(package), *mirror)
    images = set(re.findall(r"image: (\S+)", text))
    assert images == {f"mirror.example:5000/team/topology-webhook:{version()}"}


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("registry.example/team/name", ("registry.example", "team/name")),
        ("localhost/name", ("localhost", "name")),
        ("registry:5000/name", ("registry:5000", "name")),
        ("team/name", ("", "team/name")),
        ("name", ("", "name")),
    ],
)
def test_the_host_of_an_image_is_told_from_its_path(image: str, parts: tuple[str, str]) -> None:
    assert artifacts.split_image(image) == parts


def test_the_manifests_name_the_published_image(tmp_path: Path) -> None:
    text = artifacts.write_manifests(tmp_path, "registry.example/team/topology-webhook").read_text()
    assert f"image: registry.example/team/topology-webhook:{version()}" in text.replace('"', "")
    assert artifacts.PLACEHOLDER not in text


def test_the_scripts_by_which_the_workflow_publishes_run_on_what_a_dry_run_leaves(
    dist: Path, package: Path, programs: Mapping[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "dist").mkdir()
    for file in (*dist.iterdir(), package):
        shutil.copy(file, tmp_path / "dist")
    (tmp_path / "dist" / "release-notes.md").write_text("notes")
    told: list[str] = []
    publishing = Publishing(f"v{version()}", "registry.example/topology-webhook")
    publishing.run(tmp_path / "dist", tmp_path / "scratch", programs["helm"], told.append)
    assert len([line for line in told if line.startswith("as the workflow publishes: ")]) == len(publishing.steps) == 5
    # All that is left out logs in, builds or sends the image, or attests.
    assert {name.partition("/")[0] for name in publishing.left_out} == {"actions", "azure", "docker", "sigstore"}


def test_a_dry_run_finds_a_release_page_without_notes(
    dist: Path, package: Path, programs: Mapping[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "dist").mkdir()
    for file in (*dist.iterdir(), package):
        shutil.copy(file, tmp_path / "dist")
    publishing = Publishing(f"v{version()}", "registry.example/topology-webhook")
    with pytest.raises(CommandFailedError, match=r"gh: dist/release-notes\.md does not exist"):
        publishing.run(tmp_path / "dist", tmp_path / "scratch", programs["helm"], lambda _: None)


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    artifacts.write_checksums(tmp_path, [tmp_path / "a"])
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True)


def test_a_tag_of_another_version_is_refused() -> None:
    with pytest.raises(VersionError, match=f"The tag is v999.0.0, but pyproject.toml says {re.escape(version())}"):
        version("v999.0.0")


def test_release_notes_are_one_section_of_the_changelog() -> None:
    assert notes("Unreleased").startswith("### Added\n")
    assert "\n## [" not in notes("Unreleased")
    with pytest.raises(VersionError, match=r"has no heading `## \[999.0.0\]`"):
        notes("999.0.0")
