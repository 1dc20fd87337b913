"""Fixtures for the real control plane. Tests that use one of them, and all tests in this folder, are marked `cluster`.

The programs are built (or found) before the first test, with progress on the terminal. The control plane starts with
the first test that uses it and serves the whole session (with `pytest -n`, one for each worker). If a test that used it
fails, the report holds the end of every component's log. What tests pass to `record_property`, such as seeds and
measurements, is printed at the end.
"""

from __future__ import annotations

import contextlib
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.assets import find_assets
from tests.cluster.cert_manager_build import CertManagerFiles, find_cert_manager
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gated import Pods, wait_until_known
from tests.cluster.krew_build import find_krew
from tests.cluster.nodes import Machine, present
from tests.cluster.promtool_build import find_promtool
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

HERE = Path(__file__).parent
ASSETS: pytest.StashKey[Mapping[str, Path]] = pytest.StashKey()
PROMTOOL: pytest.StashKey[Path] = pytest.StashKey()
KREW: pytest.StashKey[Path] = pytest.StashKey()
CERT_MANAGER: pytest.StashKey[CertManagerFiles] = pytest.StashKey()
STANDING: pytest.StashKey[contextlib.ExitStack] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark before pytest applies `-m`. Files that share a webhook come first, one after the other."""
    for item in items:
        if HERE in item.path.parents or _needs(item, "control_plane", "programs", "promtool"):
            item.add_marker("cluster")
    items.sort(key=lambda item: not _needs(item, "shared_webhook"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that does not share the webhook finds a control plane without one."""
    if STANDING in item.config.stash and not _needs(item, "shared_webhook"):
        item.config.stash[STANDING].close()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find or build the programs now: in a fixture that would be silent, and could exceed the test's time limit."""
    if session.config.option.collectonly:
        return
    terminal = session.config.get_terminal_writer()

    def tell(line: str) -> None:
        terminal.line(line, flush=True)

    if any(_needs(item, "control_plane", "programs") for item in session.items):
        session.config.stash[ASSETS] = find_assets(tell)
    if any(_needs(item, "promtool") for item in session.items):
        session.config.stash[PROMTOOL] = find_promtool(tell)
    if any(_needs(item, "krew") for item in session.items):
        session.config.stash[KREW] = find_krew(tell)
    if any(_needs(item, "cert_manager_files") for item in session.items):
        session.config.stash[CERT_MANAGER] = find_cert_manager(tell)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    plane = getattr(item, "funcargs", {}).get("control_plane")
    # After the last test the control plane has ended, and its logs are gone.
    if report.failed and isinstance(plane, ControlPlane) and plane.folder.is_dir():
        report.sections.append(("control plane logs", plane.logs()))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                terminalreporter.write_line(f"{name}: {value}")


def _needs(item: pytest.Item, *fixtures: str) -> bool:
    return not set(fixtures).isdisjoint(getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def promtool(pytestconfig: pytest.Config) -> Path:
    """Prometheus's promtool."""
    return pytestconfig.stash[PROMTOOL]


@pytest.fixture(scope="session")
def krew(pytestconfig: pytest.Config) -> Path:
    """kubectl's plugin manager."""
    return pytestconfig.stash[KREW]


@pytest.fixture(scope="session")
def cert_manager_files(pytestconfig: pytest.Config) -> CertManagerFiles:
    """cert-manager's program and chart."""
    return pytestconfig.stash[CERT_MANAGER]


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Mapping[str, Path]:
    """The path of every program of the control plane, kubectl and helm by its name."""
    return pytestconfig.stash[ASSETS]


@pytest.fixture(scope="session")
def control_plane(programs: Mapping[str, Path]) -> Iterator[ControlPlane]:
    """A control plane for the session, with the CRDs of crds/ installed."""
    with ControlPlane.start(programs) as plane:
        plane.install_crds()
        yield plane


@pytest.fixture(scope="session")
def standing(control_plane: ControlPlane, pytestconfig: pytest.Config) -> Iterator[list[LocalWebhook]]:
    """The webhook that stays between two test files, if there is one now."""
    webhooks: list[LocalWebhook] = []
    with contextlib.ExitStack() as pytestconfig.stash[STANDING]:
        yield webhooks


@pytest.fixture(scope="module")
def shared_webhook(
    control_plane: ControlPlane, standing: list[LocalWebhook], pytestconfig: pytest.Config
) -> LocalWebhook:
    """One replica with the default settings, shared by the test files that request it: a start takes seconds.

    Tests keep apart by their namespaces. One that changes the release or ends the replica has to put it right.
    """
    stack = pytestconfig.stash[STANDING]
    if standing and not standing[0].replicas[0].process.running:
        stack.close()
    if not standing:
        standing.append(stack.enter_context(local_webhook(control_plane)))
        stack.callback(standing.clear)
        standing[0].wait_until_called()
    return standing[0]


def name_of(request: pytest.FixtureRequest) -> str:
    """A short name, unique to the test and the same in every run: a random name would change the order of names."""
    return blake2b(request.node.nodeid.encode(), digest_size=4).hexdigest()


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new namespace for one test, deleted with its pods afterwards."""
    name = f"test-{name_of(request)}"
    control_plane.create_namespace(name)
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def create_machines(control_plane: ControlPlane, namespace: str) -> Iterator[Callable[..., Any]]:
    """A function that makes machines for one test: create_machines(Machine("n0", free=(8, 2)), ...).

    It depends on `namespace` so that machines outlive the pods bound to them.
    """
    with contextlib.ExitStack() as stack:

        def create(*machines: Machine) -> None:
            stack.enter_context(present(control_plane.api, machines))

        yield create


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    """The pods of the test's namespace."""
    return Pods(control_plane, namespace)


@pytest.fixture
def known(create_machines: Callable[..., None], pods: Pods) -> Callable[..., None]:
    """A function like `create_machines` that returns when the webhook knows the machines."""

    def create(*machines: Machine) -> None:
        wait_until_known(pods, 0)  # the machines of the last test may have the same names
        create_machines(*machines)
        wait_until_known(pods, len(machines))

    return create
