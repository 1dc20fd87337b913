"""A simulation for people: the table of the proof, without and with the webhook."""

from rich.console import Console
from rich.text import Text

from webhook.cli.text_table import Cell, print_line, print_table, short_duration
from webhook.simulation.run_metrics import COLUMNS, cells
from webhook.simulation.view import SimulationView


def print_simulation(view: SimulationView, console: Console) -> None:
    """Print the runs, a line each."""
    pods, length = view.runs[0].pods, short_duration(int(view.seconds))
    title = f"{_count(pods, 'pod')} on {_count(view.nodes, 'node')}, {length} simulated"
    print_line(Text(title, style="bold"), console)
    columns = (*COLUMNS, "waiting", "denied")
    rows = [columns, *((*cells(run), f"{run.waiting:,}", f"{run.denied:,}") for run in view.runs)]
    shown = [
        [Cell(text.upper() if row is columns else text, right=number > 0) for number, text in enumerate(row)]
        for row in rows
    ]
    print_table(shown, console)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
