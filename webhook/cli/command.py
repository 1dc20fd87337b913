"""What all commands that read a cluster share: where they read it, how they print, and how they fail.

1. The cluster is a snapshot (`--cluster`), or live: that of `--kubeconfig` and `--context`, else kubectl's.
2. The answer goes to stdout as a table, JSON or YAML; warnings and errors go to stderr.
3. Input that cannot be read, and an answer that cannot be written, end the command with exit code 2.
"""

import gc
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any, Final

import structlog
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from webhook.app.settings import Settings, SettingsError, rules_of, times_of
from webhook.cli.flags import EXIT_UNREADABLE, Output
from webhook.cli.input.documents import STDIN, InputError, Item, read
from webhook.cli.input.live_cluster import Also, read_live
from webhook.cli.input.offline_cluster import Cluster, cluster_of
from webhook.cli.input.yaml_text import dump_all
from webhook.cli.render.printable import printable
from webhook.model.wording import did_you_mean, quoted
from webhook.state.cluster_cache import ClusterCache
from webhook.views.node_amounts import offered_resources, usual_resources

# What takes longer says that it is at work.
_PATIENCE_SECONDS: Final = 1.0


@contextmanager
def only_errors_to_stderr() -> Iterator[None]:
    """Within it, of the service's log lines only errors are written, to stderr: stdout belongs to the answer.

    What the service would log as a warning, commands print themselves.
    """
    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)


def resources_of(text: str | None, cache: ClusterCache) -> tuple[str, ...]:
    """The resources to show that `--resource` names, each of which some node offers. Raises InputError."""
    snapshot = cache.snapshot().nodes
    if text is None:
        return usual_resources(snapshot)
    offered = offered_resources(snapshot)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError(f"--resource: {quoted(text)} names no resource. Nodes offer: {', '.join(offered)}.")
    for name in names:
        if name not in offered:
            raise InputError(
                f"--resource: no node offers {quoted(name)}. Nodes offer: {', '.join(offered)}."
                f"{did_you_mean(name, offered)}"
            )
    return names


def read_cluster(
    snapshots: Sequence[str],
    settings: Settings,
    flags: Mapping[str, str | None],
    items: Sequence[Item] = (),
    also: Also | None = None,
) -> Cluster:
    """The cluster of a call, live with the owners of the items and what `also` adds. Raises InputError."""
    live = [name for name in ("kubeconfig", "context") if flags.get(name)]
    if snapshots and live:
        raise InputError(f"--cluster and --{live[0]} exclude each other: give a snapshot or a live cluster")
    if list(snapshots).count(STDIN) > 1:
        raise InputError("stdin (-) can be read only once")
    with working("reading the cluster"):
        if not snapshots:
            return read_live(settings, items, also)
        cluster = cluster_of(read(snapshots), rules_of(settings), times_of(settings))
    if not cluster.cache.state.nodes:
        raise InputError(f"{', '.join(snapshots)}: there is no Node in it, so there is no cluster to judge by")
    return cluster


@contextmanager
def answering() -> Iterator[None]:
    """Errors of input and settings end the command with exit code 2.

    Runs without the garbage collector, which would scan the millions of values of a large snapshot repeatedly.
    """
    gc.disable()
    try:
        with only_errors_to_stderr():
            yield
    except (InputError, SettingsError) as error:
        tell(f"error: {error}")
        raise typer.Exit(EXIT_UNREADABLE) from error
    except RecursionError as error:
        tell("error: an object is nested too deeply")
        raise typer.Exit(EXIT_UNREADABLE) from error
    finally:
        gc.enable()


def write(output: Output, value: Any, print_table: Callable[[Console], None]) -> None:
    """Print the value, or the table in its place."""
    text = ""
    if output is Output.JSON:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    elif output is Output.YAML:
        text = dump_all([value])
    with writing():
        if output is Output.TABLE:
            print_table(Console(highlight=False))
        else:
            sys.stdout.write(text)


@contextmanager
def writing() -> Iterator[None]:
    """An answer that cannot be written ends the command with exit code 2."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # the reader closed the pipe; the command line handles that
    except OSError as error:
        tell(f"error: the answer cannot be written: {error.strerror or error}")
        raise typer.Exit(EXIT_UNREADABLE) from error


def warn(cluster: Cluster) -> None:
    """Print the warnings about the cluster's objects."""
    for warning in cluster.warnings:
        tell(f"warning: {warning}")


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on stderr, if that is a terminal, what takes longer than a second, and for how long it has."""
    if not sys.stderr.isatty():
        yield
        return
    columns = SpinnerColumn(), TextColumn(what), TimeElapsedColumn()
    shown = Progress(*columns, console=Console(stderr=True), transient=True)
    shown.add_task("")
    timer = Timer(_PATIENCE_SECONDS, shown.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        shown.stop()


def tell(text: str) -> None:
    """Print text to stderr."""
    print("\n".join(map(printable, text.splitlines())), file=sys.stderr)
