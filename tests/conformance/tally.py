"""The counts of a check: agreements, the floor below which it fails, and the first disagreements by case id."""

from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class ReportLine:
    """One line of the report."""

    name: str
    floor: Fraction
    """The least share of agreement that passes."""
    agree: int = 0
    total: int = 0
    note: str = ""
    disagreements: list[str] = field(default_factory=list)

    def count(self, expected: object, got: object, place: str) -> bool:
        """Count one comparison. `place` names the case and its part."""
        agrees = expected == got
        self.note_one(agrees=agrees, disagreement=f"{place}: expected {expected}, got {got}")
        return agrees

    def note_one(self, *, agrees: bool, disagreement: str) -> None:
        """Count one comparison that was made elsewhere."""
        self.total += 1
        self.agree += agrees
        if not agrees:
            self.disagreements.append(disagreement)

    @property
    def passes(self) -> bool:
        """Whether the floor is held. Without any comparison it is."""
        return self.agree >= self.floor * self.total

    def lines(self, show: int) -> list[str]:
        """The line, with at most `show` disagreements below it."""
        verdict = "" if self.passes else f"  BELOW ITS FLOOR of {float(self.floor):.1%}"
        note = f"  {self.note}" if self.note else ""
        lines = [f"{self.name} {self.agree}/{self.total}{verdict}{note}"]
        lines += [f"    {disagreement}" for disagreement in self.disagreements[:show]]
        if len(self.disagreements) > show:
            lines.append(f"    ... and {len(self.disagreements) - show} more")
        return lines
