"""python -m tests.cluster: `build` the control plane, bring it `up` in the foreground, `replay` recorded admissions.

`versions` prints the Kubernetes versions that it can be built for, the oldest first; `lock` pins one.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tests.cluster.assets import VERSION_VARIABLE, AssetError, find_assets
from tests.cluster.build import BuildFailedError
from tests.cluster.cert_manager_build import find_cert_manager
from tests.cluster.control_plane import CommandError, NotReadyError
from tests.cluster.krew_build import find_krew
from tests.cluster.kubelets import SimulatedMachine
from tests.cluster.lock import LockError, lock
from tests.cluster.process import ProcessEndedError
from tests.cluster.promtool_build import find_promtool
from tests.cluster.real_kubelets import ImpossibleError
from tests.cluster.replay import replay
from tests.cluster.up import tell, up
from tests.cluster.versions import DEFAULT, versions

SHOWN = 20
_POLICIES = ("single-numa-node", "restricted", "best-effort", "none")


def main() -> int:
    """Run a command. 0: done, or ended by SIGTERM; 130: by Ctrl-C; 1: something failed; 2: wrong use."""
    options = parser().parse_args()
    try:
        if options.command == "build":
            programs = find_assets(tell, kubernetes=options.kubernetes)
            tell(f"control plane: {programs['kube-apiserver'].parent}")
            if options.all:
                tell(f"promtool: {find_promtool(tell)}")
                tell(f"krew: {find_krew(tell)}")
                tell(f"cert-manager: {find_cert_manager(tell).program}")
        elif options.command == "versions":
            print("\n".join(versions()))  # noqa: T201 - the answer
        elif options.command == "lock":
            lock(options.version, tell)
        elif options.command == "replay":
            return _replay(options.recordings)
        else:
            if options.values and not options.values.is_file():
                parser().error(f"--values: there is no file {options.values}")
            up(
                webhook=options.webhook,
                replicas=options.replicas,
                values=options.values,
                nodes=options.nodes,
                zones=options.zones,
                kubernetes=options.kubernetes,
                kubelets=_machines(options),
                exporter=options.exporter,
            )
    except (
        AssetError,
        BuildFailedError,
        CommandError,
        ImpossibleError,
        LockError,
        NotReadyError,
        ProcessEndedError,
    ) as error:
        tell(f"error: {error}")
        return 1
    return 0


def _replay(recordings: Path) -> int:
    """0 when the simulated kubelet's verdicts are all those recorded; else 1, with the first differences."""
    found = replay(find_assets(tell)["kubelets"], recordings)
    for difference in found.differences[:SHOWN]:
        tell(difference)
    tell(f"{found.pods} pods in {found.sequences} sequences: {len(found.differences)} differences")
    return 1 if found.differences else 0


def _machines(options: argparse.Namespace) -> list[SimulatedMachine]:
    """The machines with a real kubelet. A static CPU manager needs a CPU for the system."""
    return [
        SimulatedMachine(f"numa-{number}", numa_nodes=options.numa, policy=options.policy, reserved_cpus="0")
        for number in range(options.kubelets)
    ]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build_parser = commands.add_parser(
        "build", help="build what the control plane needs, once into the user's cache folder"
    )
    build_parser.add_argument("--all", action="store_true", help="also promtool, krew and cert-manager")
    commands.add_parser("versions", help="print the Kubernetes versions that it can be built for, the oldest first")
    lock_parser = commands.add_parser("lock", help="pin a release of Kubernetes in tests/cluster/kubernetes")
    lock_parser.add_argument("version", type=_release, metavar="vX.Y.Z", help="the release")
    up_parser = commands.add_parser(
        "up",
        help="run a control plane until Ctrl-C; prints READY kubeconfig=PATH when pods can be created",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    up_parser.add_argument("--webhook", action="store_true", help="install the chart and run the webhook locally")
    up_parser.add_argument("--replicas", type=_positive, default=1, help="local processes of the webhook")
    up_parser.add_argument("--values", type=Path, metavar="FILE", help="further values of the chart")
    up_parser.add_argument("--nodes", type=_count, default=0, help="nodes to make, without a kubelet")
    up_parser.add_argument("--zones", type=_positive, default=2, help="NUMA nodes of each")
    up_parser.add_argument("--kubelets", type=_count, default=0, help="machines with a real kubelet on fake hardware")
    up_parser.add_argument("--numa", type=_positive, default=2, help="NUMA nodes of each, with 16 CPUs and 64Gi")
    up_parser.add_argument("--policy", choices=_POLICIES, default=_POLICIES[0], help="their NUMA topology policy")
    up_parser.add_argument(
        "--exporter",
        choices=("nfd", "rte"),
        default="",
        help="the exporter on each: node-feature-discovery or resource-topology-exporter. Without: none",
    )
    for each in (build_parser, up_parser):
        each.add_argument(
            "--kubernetes",
            metavar="VERSION",
            choices=versions(),
            help=f"Kubernetes version: {', '.join(versions())}. Without: ${VERSION_VARIABLE}, else {DEFAULT}",
        )
    replay_parser = commands.add_parser("replay", help="compare the simulated kubelet with recorded admissions")
    replay_parser.add_argument("recordings", type=Path, help="file of sequences, .jsonl or .jsonl.gz")
    return top


def _release(text: str) -> str:
    """A release of Kubernetes."""
    if not re.fullmatch(r"v1\.\d+\.\d+", text):
        raise argparse.ArgumentTypeError(f"{text} is not a release such as v1.33.13")
    return text


def _count(text: str) -> int:
    """A whole number from 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than 0")
    return number


def _positive(text: str) -> int:
    """A whole number from 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
