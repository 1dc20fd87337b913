"""`topology-webhook simulate`: a workload on a cluster over simulated time, without and with the webhook.

1. The cluster is read, and the objects and the trace become workloads.
2. The scenario is run without the webhook, then with it.
3. The results of both runs are printed; a plot is written.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from webhook.app.rules_of_settings import rules_of, times_of
from webhook.app.settings import Settings
from webhook.cli.command import Output, Outputs, Snapshots, answering, read_cluster, tell, write
from webhook.cli.commands.review import DECISION_SETTINGS
from webhook.cli.input.documents import STDIN, InputError, Item, read, twice
from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.input.recorded_cluster import add_nodes, files_of, recorded_nodes, recorded_pods, workloads_of
from webhook.cli.offline.judgement_context import JudgementContext
from webhook.cli.offline.simulated_workloads import MOST_SECONDS, simulated_workloads
from webhook.cli.render.plot import check_plot, write_plot
from webhook.cli.render.simulation_table import print_simulation
from webhook.cli.setting_flags import with_setting_flags
from webhook.simulation.run import Progress as OnProgress
from webhook.simulation.run import run
from webhook.simulation.view import SimulationView, as_printed, view_of
from webhook.simulation.workload import Scenario, SimulatedWorkload
from webhook.views.as_json import as_json

EXAMPLES: Final = """\b
Examples:
  topology-webhook simulate -f workload.yaml
  topology-webhook simulate -f gang.yaml --cluster cluster.yaml --plot before-after.svg
  topology-webhook simulate --trace nodes.csv,pods.csv -o json
"""

# After the last workload: time for rejected pods to be recreated.
_SETTLING: Final = 60.0
_MOST_RECREATIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class _Times:
    """The flags about time."""

    seconds: float | None
    steady_from: float
    trace_speed: float
    recreations: int
    recreate_seconds: float
    seed: int


def simulate(  # noqa: PLR0913, PLR0917 # a parameter for each flag
    filename: Annotated[
        list[str] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Objects to create, in this order: a YAML or JSON file, a directory of them, or - for stdin. "
            "May be repeated.",
        ),
    ] = None,
    cluster: Snapshots = None,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="NODES.csv,PODS.csv",
            help="A recorded cluster in the columns of cluster-trace-gpu-v2023, in place of --cluster. "
            "With ,PODS.csv, only its pods are used, on the cluster of --cluster or the live one.",
        ),
    ] = None,
    trace_speed: Annotated[
        float,
        typer.Option(
            "--trace-speed",
            min=0.001,
            max=1e9,
            help="How many times as fast to create the pods of the trace, which run as long as recorded.",
        ),
    ] = 1.0,
    without: Annotated[bool, typer.Option("--without", help="Skip the run with the webhook.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw utilisation and the pods that do not run yet over time: FILE.svg or FILE.png. "
            "Needs the extra `plot`: pip install 'topology-webhook[plot]'.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", min=1, max=MOST_SECONDS, help="How long to simulate. Without it, 60 s after the last creation."
        ),
    ] = None,
    steady_from: Annotated[
        float, typer.Option("--steady-from", min=0, max=MOST_SECONDS, help="Measure utilisation from this second on.")
    ] = 0.0,
    recreations: Annotated[
        int,
        typer.Option(
            "--recreations",
            min=1,
            max=_MOST_RECREATIONS,
            help="How often in a row a rejected pod is recreated while nothing else changes.",
        ),
    ] = 10,
    recreate_seconds: Annotated[
        float,
        typer.Option("--recreate-seconds", min=0.01, max=3600, help="Seconds until a rejected pod is recreated."),
    ] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the scheduler's choice among equal nodes.")] = 0,
    output: Outputs = Output.TABLE,
    **flags: str | None,
) -> None:
    """Simulate a workload without and with the webhook.

    Without the webhook, the scheduler knows only the totals of nodes, and kubelets reject what they cannot align;
    with it, the service's own engine decides. Nothing is created, and the cluster is not changed.

    An object is created at once and its pods run to the end, unless its annotations simulate.topology-webhook.dev/at
    and simulate.topology-webhook.dev/run-seconds say otherwise.

    The exit code is 0, or 2 if the input cannot be read or the answer cannot be written.
    """
    with answering():
        if plot is not None:
            check_plot(plot)
        times = _Times(seconds, steady_from, trace_speed, recreations, recreate_seconds, seed)
        settings = Settings.load(flags)
        scenario = _scenario(filename or [], cluster or [], trace, times, settings, flags)
        with progress_bar(1 if without else 2) as progress:
            runs = tuple(
                view_of(scenario, run(scenario, webhook=webhook, progress=progress))
                for webhook in ((False,) if without else (False, True))
            )
        view = SimulationView(
            scenario.cluster.nodes.node_arrays.n, scenario.seconds, scenario.steady_from, scenario.seed, runs
        )
        if plot is not None:
            write_plot(view, plot)
        write(output, as_json(as_printed(view)), lambda console: print_simulation(view, console))


with_setting_flags(simulate, (*DECISION_SETTINGS, "reserve_after_seconds"))


def _scenario(
    filenames: Sequence[str],
    snapshots: Sequence[str],
    trace: str | None,
    times: _Times,
    settings: Settings,
    flags: Mapping[str, str | None],
) -> Scenario:
    """Step 1. Raises InputError."""
    if not filenames and trace is None:
        raise InputError("there is nothing to simulate: give objects with -f, or a recorded cluster with --trace")
    if [*filenames, *snapshots].count(STDIN) > 1:
        raise InputError("stdin (-) can be read only once")
    items = list(read(filenames))
    nodes, pods = ("", "") if trace is None else files_of(trace)
    cluster = _cluster(items, snapshots, nodes, settings, flags)
    warnings = [*twice(items), *cluster.warnings]
    rules = rules_of(settings)
    around = JudgementContext.of(cluster, rules, items)
    workloads = simulated_workloads(items, cluster, around, warnings)
    if pods:
        workloads += workloads_of(recorded_pods(pods), times.trace_speed)
    for warning in warnings:
        tell(f"warning: {warning}")
    if not workloads:
        raise InputError("none of the objects has pods to simulate")
    return Scenario(
        cluster.cluster_snapshot(),
        workloads,
        rules,
        *_length(workloads, times),
        times.recreations,
        times.recreate_seconds,
        settings.reserve_after_seconds,
        times.seed,
    )


def _cluster(
    items: Sequence[Item], snapshots: Sequence[str], nodes: str, settings: Settings, flags: Mapping[str, str | None]
) -> Cluster:
    if not nodes:
        return read_cluster(snapshots, settings, flags, items)
    if snapshots or flags.get("kubeconfig") or flags.get("context"):
        raise InputError(
            "--trace with nodes excludes --cluster, --kubeconfig and --context; for its pods only: ,PODS.csv"
        )
    cluster = Cluster(rules_of(settings), times_of(settings))
    add_nodes(cluster, recorded_nodes(nodes))
    return cluster


def _length(workloads: Sequence[SimulatedWorkload], times: _Times) -> tuple[float, float]:
    """Its length, and from when utilisation is measured."""
    seconds = times.seconds
    if seconds is None:
        seconds = max(workload.at for workload in workloads) + _SETTLING
    if not math.isfinite(times.steady_from) or times.steady_from >= seconds:
        raise InputError(f"--steady-from: {times.steady_from:g} is not before the end, which is second {seconds:g}")
    return seconds, times.steady_from


@contextmanager
def progress_bar(runs: int) -> Iterator[OnProgress | None]:
    """A bar on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("simulating"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, finished = bar.add_task("", total=None), 0

        def on_progress(done: int, total: int) -> None:
            nonlocal finished
            bar.update(task, completed=finished * total + done, total=runs * total)
            finished += done == total

        yield on_progress
