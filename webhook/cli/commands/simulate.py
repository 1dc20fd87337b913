"""`topology-webhook simulate`: a workload on a cluster over simulated time, without and with the webhook.

1. The cluster is read, and the objects and the trace become workloads.
2. The scenario is run without the webhook, then with it.
3. The results of both runs are printed; a plot is written.

matplotlib draws the plot, if it is installed (the extra `plot`). The image of the service does not have it.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from webhook.app.settings import Settings, rules_of, times_of
from webhook.cli.command import answering, read_cluster, tell, write
from webhook.cli.flags import Output
from webhook.cli.input.documents import STDIN, InputError, Item, read, twice
from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.input.recorded_cluster import add_nodes, files_of, recorded_nodes, recorded_pods, workloads_of
from webhook.cli.offline.judgement_context import JudgementContext
from webhook.cli.offline.simulated_workloads import simulated_workloads
from webhook.cli.render.text_table import Cell, print_line, print_table, short_duration
from webhook.model.wording import counted
from webhook.simulation.run import Progress as OnProgress
from webhook.simulation.run import run
from webhook.simulation.run_metrics import COLUMNS, cells
from webhook.simulation.view import SimulationView, as_printed, view_of
from webhook.simulation.workload import Scenario, SimulatedWorkload
from webhook.views.as_json import as_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SUFFIXES: Final = (".svg", ".png")
_STYLES: Final = {False: ("without the webhook", "#c0392b", "--"), True: ("with the webhook", "#1f6fb2", "-")}
_UNITS: Final = ((86_400, "days"), (3_600, "hours"), (60, "minutes"))


def check_plot(file: Path) -> None:
    """Raise InputError if no plot could be written to the file."""
    if file.suffix not in _SUFFIXES:
        raise InputError(f"--plot: {str(file)!r} must end in .svg or .png")
    if not file.absolute().parent.is_dir():
        raise InputError(f"--plot: there is no directory {str(file.absolute().parent)!r}")
    try:
        import matplotlib  # noqa: PLC0415 # optional, and slow to import
    except ImportError as error:
        raise InputError(
            "--plot: matplotlib is not installed. Install it with: pip install 'topology-webhook[plot]'"
        ) from error
    # Equal runs give equal files.
    matplotlib.rcParams["svg.hashsalt"] = "topology-webhook"


def write_plot(view: SimulationView, file: Path) -> None:
    """Draw utilisation above waiting pods over time, with a line for each run in both. Raises InputError."""
    from matplotlib.figure import Figure  # noqa: PLC0415 # see above
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    divisor, unit = next(((each, name) for each, name in _UNITS if view.seconds >= 3 * each), (1, "seconds"))
    for each in view.runs:
        times = [sample.at / divisor for sample in each.samples] + [view.seconds / divisor]
        _steps(above, each.webhook, times, (100 * sample.utilisation for sample in each.samples))
        _steps(below, each.webhook, times, (sample.waiting for sample in each.samples))
    above.set_ylabel("CPUs in use (%)")
    above.set_ylim(0, 100)
    above.legend(loc="best")
    below.set_ylabel("pods not running yet")
    below.set_ylim(bottom=0)
    below.yaxis.set_major_locator(MaxNLocator(integer=True))
    below.set_xlabel(f"time ({unit})")
    for axes in (above, below):
        axes.grid(visible=True, alpha=0.3)
    metadata: dict[str, Any] = {"Date": None} if file.suffix == ".svg" else {}
    try:
        figure.savefig(file, metadata=metadata, dpi=120)
    except OSError as error:
        raise InputError(f"--plot: {file}: {error.strerror or error}") from error


def _steps(axes: "Axes", webhook: bool, times: list[float], values: Iterable[float]) -> None:
    """A line that keeps each value until the next one, and the last one to the end."""
    heights = list(values)
    label, color, line = _STYLES[webhook]
    axes.step(times, [*heights, *heights[-1:]] or [0.0], where="post", label=label, color=color, linestyle=line)


def print_simulation(view: SimulationView, console: Console) -> None:
    """Print the runs as in the table of the proof, a line for each."""
    pods, length = view.runs[0].pods, short_duration(int(view.seconds))
    of, on = counted(pods, "pod", number=f"{pods:,}"), counted(view.nodes, "node", number=f"{view.nodes:,}")
    title = f"{of} on {on}, {length} simulated"
    print_line(Text(title, style="bold"), console)
    columns = (*COLUMNS, "never ran", "denied")
    rows = [columns, *((*cells(run), f"{run.waiting:,}", f"{run.denied:,}") for run in view.runs)]
    shown = [
        [Cell(text.upper() if row is columns else text, right=number > 0) for number, text in enumerate(row)]
        for row in rows
    ]
    print_table(shown, console)


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
    filename: list[str] | None,
    cluster: list[str] | None,
    trace: str | None,
    trace_speed: float,
    without: bool,
    plot: Path | None,
    seconds: float | None,
    steady_from: float,
    recreations: int,
    recreate_seconds: float,
    seed: int,
    output: Output,
    **flags: str | None,
) -> None:
    """Print what the runs measured."""
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
