"""A simulation for people: the table of the proof, without and with the webhook."""

from rich.console import Console
from rich.text import Text

from webhook.cli.render.text_table import Cell, print_line, print_table, short_duration
from webhook.model.counted import counted
from webhook.simulation.run_metrics import COLUMNS, cells
from webhook.simulation.view import SimulationView


def print_simulation(view: SimulationView, console: Console) -> None:
    """Print the runs, a line each."""
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
