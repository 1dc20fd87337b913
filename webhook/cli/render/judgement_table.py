"""Judgements for people: for each object the verdict and the decision, then the reasons node by node.

Colors are left out if the output is not a terminal.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from webhook.cli.offline.judgement import Judgement
from webhook.cli.render.gang_table import print_gangs
from webhook.cli.render.printable import printable, shortened
from webhook.cli.render.text_table import Cell, indented, names_text, print_line
from webhook.cli.render.text_table import print_table as print_rows
from webhook.engine.decide import Decision
from webhook.engine.enforcement import not_enforced
from webhook.model.wording import counted
from webhook.placing.pod.decision import Verdict

# Up to this many nodes are all shown; of a larger cluster the best nodes, and an example for each reason.
_SHOWN_WHOLE = 20
_BEST = 10
# Of texts of one reason that differ in amounts alone, enough to see that they do. JSON has all.
_ALIKE = 5
# A kind, a namespace and a name at their longest.
_LONGEST = 63 + 1 + 63 + 1 + 253

_STYLES = {Verdict.ALLOW: "green", Verdict.WAIT: "yellow", Verdict.DENY: "red"}


def print_table(judgements: Sequence[Judgement], console: Console, *, all_nodes: bool) -> None:
    """Print the judgements, and a count of the verdicts if there are several."""
    podless: dict[str, list[str]] = {}
    for judgement in judgements:
        if judgement.is_podless:
            podless.setdefault(judgement.item.kind, []).append(shortened(judgement.item.name, _LONGEST))
        else:
            _print_judgement(judgement, console, all_nodes=all_nodes)
    if podless:
        print_line(Text("Without pods to place", style="bold"), console)
        for kind, names in podless.items():
            print_line(Text(f"  {shortened(kind, _LONGEST)}: {names_text(names, most=8)}"), console, hanging=4)
        print_line(Text(), console)
    if len(judgements) > 1:
        verdicts = [judgement.verdict for judgement in judgements]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict if verdict in verdicts)
        print_line(Text(f"{counted(len(judgements), 'object')}: {counts}"), console)


def _print_judgement(judgement: Judgement, console: Console, *, all_nodes: bool) -> None:
    item = judgement.item
    name = f"{item.namespace}/{item.name}" if item.namespace else item.name
    verdict = (judgement.verdict.value, _STYLES[judgement.verdict])
    # What stands in an AppWrapper, or in a file, may have any kind and name: no API server has looked at it.
    print_line(Text.assemble((shortened(f"{item.kind} {name}", _LONGEST), "bold"), ": ", verdict), console)
    print_line(Text(f"  {printable(judgement.message)}"), console)
    for warning in judgement.all_warnings():
        print_line(Text.assemble("  ", ("warning", "yellow"), f": {printable(warning)}"), console)
    if judgement.group is not None:
        print_gangs(judgement.group, console)
    if (judgement.group is None or all_nodes) and judgement.decision is not None:
        print_nodes_of(judgement.decision, console, all_nodes=all_nodes)
    print_line(Text(), console)


def print_nodes_of(decision: Decision, console: Console, *, all_nodes: bool) -> None:
    """Print the nodes that fit, best first, and why the others do not; equal ones in one line."""
    if len(decision.fits):
        scored = ["SCORE", *(["PREFERRED"] if decision.ranking.liking is not None else []), "NUMA"]
        titles = ["NODE", "FITS", *(scored if decision.fit_count else [])]
        header = [Cell(title, right=title in {"SCORE", "PREFERRED"}) for title in titles]
        rows = [*_fitting(decision, all_nodes=all_nodes), *_excluded(decision, all_nodes=all_nodes)]
        print_rows(indented([[*header, Cell("WHY NOT")], *(row.cells(len(titles)) for row in rows)]), console)


@dataclass(slots=True)
class _Row:
    """Nodes with one answer. answer: the cells between the first and the last one."""

    answer: tuple[str, ...]
    why_not: str = ""
    nodes: list[str] = field(default_factory=list)
    more: int = 0

    def cells(self, columns: int) -> list[Cell]:
        """The cells of the line."""
        names = names_text(self.nodes) if self.nodes else f"... {self.more} more"
        texts = (*self.answer, *[""] * (columns - 1 - len(self.answer)))
        fits = Cell(texts[0], "green" if texts[0] == "yes" else "")
        scores = [Cell(text, right=number < columns - 2) for number, text in enumerate(texts[1:], 1)]
        return [Cell(names), fits, *scores, Cell(self.why_not)]


def _fitting(decision: Decision, *, all_nodes: bool) -> Iterable[_Row]:
    best = decision.best(len(decision.fits) if _is_whole(decision, all_nodes) else _BEST)
    rows: dict[object, _Row] = {}
    for one in best:
        preferred = [] if decision.ranking.liking is None else [str(one.preference)]
        answer = ("yes", str(one.score), *preferred, "+".join(map(str, one.numa_nodes)) or "any")
        index = decision.snapshot.node_arrays.index[one.node]
        weak = not_enforced(decision.snapshot.node_arrays, decision.request, index)
        rows.setdefault((answer, weak), _Row(answer, weak)).nodes.append(one.node)
    yield from rows.values()
    if decision.fit_count > len(best):
        yield _Row(("yes",), more=decision.fit_count - len(best))


def _excluded(decision: Decision, *, all_nodes: bool) -> Iterable[_Row]:
    """With all nodes, those of one text are a line; of a reason with many texts, some are shown."""
    arrays = decision.snapshot.node_arrays
    excluded = arrays.order[~decision.fits[arrays.order]]
    for reason, count in sorted(decision.excluded.items(), key=lambda one: (-one[1], one[0])):
        nodes = excluded[decision.reason[excluded] == reason]
        rows: dict[str, _Row] = {}
        for node in nodes if _is_whole(decision, all_nodes) else nodes[:1]:
            text = decision.explain(int(node))[1]
            rows.setdefault(text, _Row(("no",), text)).nodes.append(arrays.names[int(node)])
        shown = list(rows.values())[: _ALIKE if all_nodes or len(rows) <= _ALIKE else 1]
        yield from shown
        if more := count - sum(len(row.nodes) for row in shown):
            yield _Row(("no",), reason.phrase, more=more)


def _is_whole(decision: Decision, all_nodes: bool) -> bool:
    return all_nodes or len(decision.fits) <= _SHOWN_WHOLE
