"""Judgements for people: for each object the verdict and the decision, then the reasons node by node.

The layout does not depend on the terminal's width. Colors are left out if the output is not a terminal.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.text import Text

from webhook.cli.offline.judgement import Judgement
from webhook.cli.render.gang_table import group_lines
from webhook.cli.render.printable import printable, shortened
from webhook.engine.decide import Decision
from webhook.engine.enforcement import not_enforced
from webhook.model.wording import counted
from webhook.placing.pod.decision import Verdict

# Up to this many nodes are all shown; of a larger cluster the best nodes, and an example for each reason.
_SHOWN_WHOLE = 20
_BEST = 10
# A kind, a namespace and a name at their longest.
_LONGEST = 63 + 1 + 63 + 1 + 253

_STYLES = {Verdict.ALLOW: "green", Verdict.WAIT: "yellow", Verdict.DENY: "red"}


class _Row(NamedTuple):
    node: str
    fits: str
    score: str = ""
    preferred: str = ""
    numa: str = ""
    why_not: str = ""


_HEADER = _Row("NODE", "FITS", "SCORE", "PREFERRED", "NUMA", "WHY NOT")


def print_table(judgements: Sequence[Judgement], console: Console, *, all_nodes: bool) -> None:
    """Print the judgements, and a count of the verdicts if there are several."""
    for judgement in judgements:
        _print_judgement(judgement, console, all_nodes=all_nodes)
    if len(judgements) > 1:
        verdicts = [judgement.verdict for judgement in judgements]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict if verdict in verdicts)
        _print(console, Text(f"{counted(len(judgements), 'object')}: {counts}"))


def _print_judgement(judgement: Judgement, console: Console, *, all_nodes: bool) -> None:
    item = judgement.item
    name = f"{item.namespace}/{item.name}" if item.namespace else item.name
    verdict = (judgement.verdict.value, _STYLES[judgement.verdict])
    # What stands in an AppWrapper, or in a file, may have any kind and name: no API server has looked at it.
    _print(console, Text.assemble((shortened(f"{item.kind} {name}", _LONGEST), "bold"), ": ", verdict))
    _print(console, Text(f"  {printable(judgement.message)}"))
    for warning in judgement.all_warnings():
        _print(console, Text.assemble("  ", ("warning", "yellow"), f": {printable(warning)}"))
    if judgement.group is not None:
        for line in group_lines(judgement.group):
            _print(console, Text(printable(line)))
    if (judgement.group is None or all_nodes) and judgement.decision is not None:
        print_nodes_of(judgement.decision, console, all_nodes=all_nodes)
    _print(console, Text())


def print_nodes_of(decision: Decision, console: Console, *, all_nodes: bool) -> None:
    """Print every node that fits, best first, and why the others do not."""
    if len(decision.fits):
        header = _HEADER if decision.ranking.liking is not None else _HEADER._replace(preferred="")
        _print_rows([header, *_rows(decision, all_nodes=all_nodes)], console)


def _rows(decision: Decision, *, all_nodes: bool) -> Iterator[_Row]:
    whole = all_nodes or len(decision.fits) <= _SHOWN_WHOLE
    best = decision.best(len(decision.fits) if whole else _BEST)
    for one in best:
        preferred = "" if one.preference is None else str(one.preference)
        numa = "+".join(map(str, one.numa_nodes)) or "any"
        index = decision.snapshot.node_arrays.index[one.node]
        weak = not_enforced(decision.snapshot.node_arrays, decision.request, index)
        yield _Row(one.node, "yes", str(one.score), preferred, numa, weak)
    if decision.fit_count > len(best):
        yield _Row(f"... {decision.fit_count - len(best)} more", "yes")
    order = decision.snapshot.node_arrays.order
    excluded = order[~decision.fits[order]]
    if whole:
        yield from (_why_not(decision, int(node)) for node in excluded)
        return
    for reason, count in sorted(decision.excluded.items(), key=lambda one: (-one[1], one[0])):
        yield _why_not(decision, int(excluded[np.argmax(decision.reason[excluded] == reason)]))
        if count > 1:
            yield _Row(f"... {count - 1} more", "no", why_not=reason.phrase)


def _why_not(decision: Decision, node: int) -> _Row:
    return _Row(decision.snapshot.node_arrays.names[node], "no", why_not=decision.explain(node)[1])


def _print_rows(rows: Sequence[_Row], console: Console) -> None:
    """The first row is the header."""
    node, fits, score, preferred, numa, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    for row in rows:
        liked = f"  {row.preferred:>{preferred}}" if preferred else ""
        cells = f"  {row.node:{node}}  {row.fits:{fits}}  {row.score:>{score}}{liked}  {row.numa:{numa}}  {row.why_not}"
        line = Text(cells.rstrip())
        if row is rows[0]:
            line.stylize("bold")
        line.highlight_words([" yes "], "green")
        _print(console, line)


def _print(console: Console, line: Text) -> None:
    # A terminal may wrap the line; we neither wrap nor truncate it.
    console.print(line, soft_wrap=True)
