"""No object that the API server accepts takes much memory or time: every sixteenth case of the bench, or all (`long`).

Memory is counted. Time is CPU time of the thread, as a multiple of the time to read an ordinary request of 3 MiB in
the same run, so the speed of the machine does not matter. The cluster is smaller than the bench's. Costs that grow
with the nodes show in the bench; costs that grow faster than the object's bytes show here.
"""

import json
from itertools import islice

import pytest

from tests.bench import __main__ as command
from tests.bench import worst
from tests.bench.worst import FAMILIES, MOST_MIB, Case, cases, milliseconds, peak_mib
from tests.bench.worst_site import Site

# One reading is some 30 ms. What took seconds at first took hundreds of them at 3 MiB.
MOST_READINGS = 10.0


@pytest.fixture(scope="module")
def site() -> Site:
    return Site(nodes=100)


@pytest.fixture(scope="module")
def reading() -> float:
    """Milliseconds of CPU time to read 3 MiB of small objects, as a unit of time."""
    body = json.dumps([{"name": f"c{n}", "value": str(n)} for n in range(90_000)]).encode()

    def read(_: Site) -> None:
        json.loads(body)

    return milliseconds(Site(nodes=1), Case("reading", body, read))


@pytest.mark.parametrize(
    ("family", "every"),
    [(family, 16) for family in FAMILIES] + [pytest.param(family, 1, marks=pytest.mark.long) for family in FAMILIES],
)
def test_the_worst_of_every_field_takes_bounded_memory_and_time(
    site: Site, reading: float, family: str, every: int
) -> None:
    beyond = []
    for case in islice(cases([family]), 0, None, every):
        peak = peak_mib(site, case)
        taken = milliseconds(site, case, runs=1)
        if taken > MOST_READINGS * reading:
            taken = milliseconds(site, case)
        if peak > MOST_MIB or taken > MOST_READINGS * reading:
            beyond.append(f"{case.what}: {peak:.0f} MiB, {taken / reading:.1f} readings of 3 MiB")
    assert not beyond, "\n".join(beyond)


def test_every_line_has_the_fields_that_programs_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = next(cases())
    monkeypatch.setattr(worst, "cases", lambda: iter([first]))
    monkeypatch.setattr(worst, "Site", lambda: Site(nodes=4))
    assert command.main(["--json", "--only", "worst"]) == 0
    (line,) = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert line.keys() == {"bench", "what", "bytes", "ms", "peak_mib"}
    assert (line["bench"], line["what"], line["bytes"]) == ("worst", first.what, len(first.body))
    assert command.main(["--only", "worst"]) == 0
    assert first.what in capsys.readouterr().out
