"""A plot of a simulation: utilisation and waiting pods over time, as SVG or PNG.

matplotlib draws it, if it is installed (the extra `plot`). The image of the service does not have it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webhook.cli.input.documents import InputError
from webhook.simulation.view import SimulationView

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
    """Draw utilisation above waiting pods, each with a line for each run. Raises InputError."""
    from matplotlib.figure import Figure  # noqa: PLC0415 # see above
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    divisor, unit = next(((each, name) for each, name in _UNITS if view.seconds >= 3 * each), (1, "seconds"))
    for run in view.runs:
        times = [sample.at / divisor for sample in run.samples] + [view.seconds / divisor]
        _steps(above, run.webhook, times, (100 * sample.utilisation for sample in run.samples))
        _steps(below, run.webhook, times, (sample.waiting for sample in run.samples))
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
