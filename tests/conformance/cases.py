"""Golden files and their cases. The content of a file decides its format, not its name."""

import gzip
import json
import traceback
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.conformance import allocations, kubelet, plugin, recordings, small, unit_tables
from tests.conformance.tally import ReportLine

Case = Mapping[str, Any]
Check = Callable[[Sequence[Case]], list[ReportLine]]


def _admissions(cases: Sequence[Case]) -> list[ReportLine]:
    """A real kubelet tells no NodeResourceTopology; what its managers' code alone answered has one before each pod."""
    if all("nrtBefore" in pod for case in cases for pod in case["expect"]["pods"]):
        return kubelet.check(cases)
    return recordings.check(cases)


# Format -> the keys that tell its cases from all others (the first format that matches), and its check.
FORMATS: Final[Mapping[str, tuple[frozenset[str], Check]]] = {
    "kubelet admission": (frozenset({"id", "machine", "pods", "expect"}), _admissions),
    "filter and scores": (frozenset({"id", "nodes", "pods", "expect"}), plugin.check),
    "topology merge": (frozenset({"id", "policy", "numaNodes", "providers", "expect"}), small.check_merges),
    "pod fingerprint": (frozenset({"id", "pods", "expect"}), small.check_fingerprints),
    "quantities": (frozenset({"id", "in", "expect"}), small.check_quantities),
    "claims": (frozenset({"id", "slices", "classes", "rules", "claims", "pod", "nodes", "expect"}), allocations.check),
    "selectors": (frozenset({"id", "plain", "expression", "devices", "expect"}), allocations.check_selectors),
    "plugin unit tables": (frozenset({"test", "kind", "node", "nrt", "pod"}), unit_tables.check),
}

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".json", ".json.gz")


class UnusableError(Exception):
    """The cases cannot be used. The message names the file and the reason."""


def files(directory: Path) -> list[Path]:
    """The golden files of a directory, by name."""
    if not directory.is_dir():
        raise UnusableError(f"{directory} is not a directory")
    found = sorted(path for path in directory.iterdir() if path.is_file() and path.name.endswith(SUFFIXES))
    if not found:
        raise UnusableError(f"{directory} has no golden file (*{', *'.join(SUFFIXES)})")
    return found


def tallies(path: Path) -> list[ReportLine]:
    """The counts of the check of one file."""
    check, cases = _read(path)
    try:
        found = check(cases)
    except UnusableError:
        raise
    except Exception as error:  # a case is JSON that anybody wrote: what it lacks may show anywhere
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise UnusableError(
            f"{path.name} has a case that cannot be read: {error!r} ({Path(place.filename).name}:{place.lineno})"
        ) from error
    if not found[0].total:
        raise UnusableError(f"{path.name} expects nothing")
    return found


def _read(path: Path) -> tuple[Check, Sequence[Case]]:
    """The check for a file and its cases."""
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UnusableError(f"{path.name} is unreadable: {error}") from error
    cases = _parse(path, text)
    if not cases:
        raise UnusableError(f"{path.name} has no cases")
    return _check_for(path, cases), cases


def _parse(path: Path, text: str) -> list[Case]:
    if path.name.removesuffix(".gz").endswith(".json"):
        try:
            cases = json.loads(text)
        except ValueError as error:
            raise UnusableError(f"{path.name} is no JSON: {error}") from error
        if not isinstance(cases, list):
            raise UnusableError(f"{path.name} is no JSON array of cases")
        return cases
    cases = []
    # Not splitlines: a JSON string may hold other line ends of Unicode.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                cases.append(json.loads(line))
            except ValueError as error:
                raise UnusableError(f"{path.name}, line {number} is no JSON: {error}") from error
    return cases


def _check_for(path: Path, cases: Sequence[Case]) -> Check:
    """The check of the first format that most of the cases have. The others must have it, too."""

    def lacking(keys: frozenset[str]) -> list[int]:
        return [number for number, case in enumerate(cases, 1) if not (isinstance(case, dict) and keys <= case.keys())]

    name, faulty = min(((name, lacking(keys)) for name, (keys, _) in FORMATS.items()), key=lambda one: len(one[1]))
    keys, check = FORMATS[name]
    if len(faulty) == len(cases):
        raise UnusableError(f"{path.name} is in no known format: {', '.join(FORMATS)}")
    if faulty:
        raise UnusableError(f"{path.name}, case {faulty[0]} is no case of {name}: it needs {', '.join(sorted(keys))}")
    return check
