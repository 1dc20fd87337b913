"""Retired words stay out of code and docs (docs/glossary.md)."""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# In every sentence: docs, chart, comments, docstrings, messages. Regular expressions.
RETIRED_IN_PROSE = {
    r"late hints?": "allocation backfill",
    r"uncounted": "unreported",
    r"un(?:guarded|hinted)": "unallocated",
    r"foresee(?:s|n)?": "replay",
    r"rehears(?:al|als|e|ed|es|ing)": "replay",
    r"lineages?": "owner chain",
    r"steer(?:s|ed|ing)?": "mutate, mutation",
    r"made anew": "recreated",
    r"reservation keeper": "assumed pods",
    r"(?:a|open|overdue) grants?": "assumed pod",
    r"left alone": "unmanaged",
}

# In docs and in the code of these rooms: words that make a sentence hard to read.
PLAIN_ROOMS = (
    "certs",
    "webhook/admission",
    "webhook/cli",
    "webhook/engine/filter",
    "webhook/engine/gang",
    "webhook/engine/kubelet",
    "webhook/engine/plugin",
    "webhook/engine/snapshot",
    "webhook/engine/topology",
    "webhook/kube",
    "webhook/metrics",
    "webhook/formats",
    "webhook/model",
    "webhook/placing/pod",
    "webhook/server",
)
NOT_PLAIN = {
    r"nobody": "no client, no node, ..., or the active voice",
    r"somebody": "another client, a user, ...",
    r"whoever": "the client that, every replica that, ...",
    r"anew": "again, or re-",
    r"for ever": "until cancelled",
    r"let go": "ungated",
    r"told of": "notified, or called for",
    r"mend(?:s|ed)?": "fix, repair",
}

# In docs, and in strings, docstrings and comments of the code: phrases that no native writer would use.
NOT_NATIVE = {
    r"in sum": "in total",
    r"in vain": "without effect; of a pod, rejected on arrival",
    r"ends? for (?:it|another pod|a preemptor)": "is preempted for it",
    r"the end of (?:\d+|\{\})(?: pods?)?(?: on)?": "3 pods on n4 must terminate",
    r"no end of": "terminating pods would not",
    r"(?:pods?|PODS?) of lower priority": "lower-priority pods",
    r"speaks? for": "represents",
    r"in the same breath": "right before",
    r"(?:held|kept) places?": "reserved nodes, the preemptor's nominated node",
    r"(?:is|are) (?:held|kept) for (?:it|gangs?|groups?|another)": "is reserved for it",
    r"(?:hold|holds|held) (?:it|them) to": "limits it to",
    r"for each other without end|wait without end": "deadlock; wait indefinitely",
    r"taken up": "picked up",
    r"waits for .{1,60} to end": "... must terminate first",
}
# In messages: a gang is what starts together. A PodGroup, a pod set group and a node group are other things.
NO_GANG = re.compile(
    r"(?<!node )(?<!set )\bgroup \{\}|(?<!set )\bgroups that\b|\b(?:its|another) group (?:of its|does not)"
)

# In identifiers of the code, by their parts: `late_hints` is refused for the pair, `ClusterWorld` for `world`.
RETIRED_IN_CODE = {
    "world": "cache, or snapshot",
    "promise": "assume",
    "promised": "assumed",
    "withdraw": "forget",
    "overdue": "expired",
    "uncounted": "unreported",
    "unguarded": "unallocated",
    "unhinted": "unallocated",
    "late hint": "allocation backfill",
    "late hints": "allocation backfills",
    "foresee": "replay",
    "foreseen": "replayed",
    "foresight": "certainty",
    "rehearse": "replay",
    "emptied": "empty cluster",
    "outlook": "unschedulable",
    "prospect": "unschedulable reason",
    "let go": "ungate",
    "steer": "mutate",
    "steered": "mutated",
    "steering": "mutation",
    "teller": "status reporter",
    "figures": "metrics",
    "surroundings": "dependencies",
    "duty": "leader state",
    "duties": "runnables",
    "lineage": "owner chain",
    "lineages": "owner chains",
    "question": "signature",
    "pour": "distribute",
    "stock": "remaining",
    "soonest": "earliest",
    "marker": "managed fields",
    "horizon": "TTL",
    "left alone": "unmanaged",
    "not ours": "unmanaged",
    "rehearsal": "replay",
    "rehearsed": "replayed",
    "lineage of": "owner chain of",
    "prospects": "schedulability",
    "worlds": "caches, or snapshots",
    "doubtful": "uncertain",
    "whereabouts": "placements",
    "grant": "assumed pod",
    "grants": "assumed pods",
}
# May stay: (file, identifier).
EXCEPTIONS = {("webhook/model/quantity.py", "_is_left_alone")}
# In tests a few words name other things: the worlds of a simulation, markers of pytest, a stock of goods.
ALLOWED_IN_TESTS = {
    "duty",
    "emptied",
    "figures",
    "grant",
    "grants",
    "horizon",
    "left alone",
    "marker",
    "not ours",
    "pour",
    "promise",
    "question",
    "soonest",
    "stock",
    "surroundings",
    "world",
}

# In everything that users read: metrics, reasons, events, settings.
RETIRED_FOR_USERS = {
    "pods_let_go": "pods_ungated",
    "late_hints_total": "hints_backfilled_total",
    "open_grants": "assumed_pods",
    "informer_silence_seconds": "informer_last_event_timestamp_seconds",
    "placement_rounds_total": "placement_cycles_total",
    "NotNext": "BindingInProgress",
    "LeaderElsewhere": "NotLeader",
    "NeverAligned": "Unalignable",
    "NoRoomNow": "InsufficientCapacity",
    "LeftToScheduler": "DelegatedToScheduler",
    "EvictedToPlaceAnew": "EvictedForRescheduling",
    "NoHint": "NUMANodesUnknown",
    "grantHorizonSeconds": "apiServerRequestTimeoutSeconds",
    "release-after-seconds": "ungate-after-seconds",
    "releaseAfterSeconds": "ungateAfterSeconds",
    "no-room": "no-capacity",
    "noRoom": "noCapacity",
    "groupStrategy": "gangStrategy",
    "group-strategy": "gang-strategy",
    "when-needed": "WhenNeeded",
    "bin-pack": "BinPack",
}
_ANY_IN_PROSE = re.compile("|".join(RETIRED_IN_PROSE), re.IGNORECASE)
_ANY_FOR_USERS = re.compile("|".join(RETIRED_FOR_USERS))
_PARTS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_FOR_USERS = ("*.md", "docs/*.md", "charts/**/*", "webhook/**/*.py", "examples/**/*.yaml")


def _read_by_users() -> list[Path]:
    return sorted({path for pattern in _FOR_USERS for path in ROOT.glob(pattern) if path.is_file()})


def _prose(path: Path) -> list[tuple[int, str]]:
    """The text for people in a file, by line: in Python its comments and strings of several words."""
    if path.suffix != ".py":
        return list(enumerate(path.read_text().splitlines(), 1))
    return [
        (token.start[0] + offset, line)
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        if token.type == tokenize.COMMENT
        or (token.type == tokenize.STRING and " " in token.string)
        or tokenize.tok_name[token.type] == "FSTRING_MIDDLE"
        for offset, line in enumerate(token.string.splitlines())
    ]


def _messages(path: Path) -> list[tuple[int, str]]:
    """The string literals of several words, with `{}` for what is filled in; without docstrings."""
    tree = ast.parse(path.read_text())
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inner |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if id(node) in inner or not isinstance(node, ast.JoinedStr | ast.Constant):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
        if " " in text:
            found.append((node.lineno, text))
    return found


def retired_in(line: str) -> list[tuple[str, str]]:
    """The retired words in a line of prose, each with its replacement."""
    if not _ANY_IN_PROSE.search(line):
        return []
    return [
        (match[0], instead)
        for word, instead in RETIRED_IN_PROSE.items()
        for match in re.finditer(rf"(?<![\w/.-]){word}(?![\w/-])", line, re.IGNORECASE)
    ]


@cache
def retired_in_name(name: str) -> list[tuple[str, str]]:
    """The retired words in an identifier."""
    parts = f" {' '.join(part.lower() for part in _PARTS.findall(name))} "
    return [(word, instead) for word, instead in RETIRED_IN_CODE.items() if f" {word} " in parts]


def test_identifiers_are_read_by_their_parts() -> None:
    assert retired_in_name("_LateHintsOf") == [("late hints", "allocation backfills")]
    assert retired_in_name("ClusterWorld") == [("world", "cache, or snapshot")]
    assert retired_in_name("worldwide_promising") == []


def test_words_are_found_in_any_case_and_number_and_not_within_others() -> None:
    assert retired_in("Late hints and a Rehearsal") == [("Late hints", "allocation backfill"), ("Rehearsal", "replay")]
    assert retired_in("an unforeseen, latehint `pod-lineage` hint") == []


def test_docs_and_plain_rooms_are_written_in_plain_words() -> None:
    docs = [path for pattern in ("*.md", "docs/*.md", "charts/**/*.md") for path in ROOT.glob(pattern)]
    rooms = [path for room in PLAIN_ROOMS for path in (ROOT / room).rglob("*.py")]
    assert len(rooms) > len(PLAIN_ROOMS)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}: say {instead}"
        for path in sorted({*docs, *rooms})
        for number, line in _prose(path)
        for word, instead in NOT_PLAIN.items()
        for match in re.finditer(rf"(?<![\w/.-]){word}(?![\w/-])", line, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


def test_docs_and_code_are_written_as_a_native_writer_would() -> None:
    docs = [
        path for pattern in ("*.md", "docs/*.md", "charts/**/*.md", "charts/**/*.yaml") for path in ROOT.glob(pattern)
    ]
    code = [path for folder in ("webhook", "certs") for path in (ROOT / folder).rglob("*.py")]
    texts = [
        (path, [*_prose(path), *(_messages(path) if path.suffix == ".py" else ())]) for path in sorted({*docs, *code})
    ]
    found = {
        f"{path.relative_to(ROOT)}:{number}: {match[0]}: say {instead}"
        for path, lines in texts
        for number, line in lines
        if not line.startswith("#!")
        for phrase, instead in NOT_NATIVE.items()
        for match in re.finditer(rf"(?<![\w/.-]){phrase}(?![\w/-])", line, re.IGNORECASE)
    }
    assert not found, "\n".join(sorted(found))


def test_messages_of_all_rooms_are_written_in_plain_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}: say {instead}"
        for path in sorted((ROOT / "webhook").rglob("*.py"))
        for number, text in _messages(path)
        for word, instead in NOT_PLAIN.items()
        for match in re.finditer(rf"(?<![\w/.-]){word}(?![\w/-])", text, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


def test_messages_call_a_gang_a_gang() -> None:
    assert NO_GANG.search("group {}: {} on {}")
    assert not NO_GANG.search("one more of node group {}: {}")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}: say gang"
        for path in sorted((ROOT / "webhook").rglob("*.py"))
        for number, text in _messages(path)
        if (match := NO_GANG.search(text))
    ]
    assert not found, "\n".join(found)


def test_no_sentence_has_a_word_that_was_given_up() -> None:
    paths = [*_read_by_users(), *(ROOT / "certs").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word}: say {instead}"
        for path in sorted(set(paths) - {Path(__file__)})
        for number, line in _prose(path)
        for word, instead in retired_in(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", ["webhook", "certs", "tests"])
def test_no_identifier_has_a_word_that_was_given_up(folder: str) -> None:
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type != tokenize.NAME or (name, token.string) in EXCEPTIONS:
                continue
            for word, instead in retired_in_name(token.string):
                if folder != "tests" or word not in ALLOWED_IN_TESTS:
                    found.append(f"{name}:{token.start[0]}: {token.string}: {word}: say {instead}")
    assert not found, "\n".join(found)


def test_no_file_is_named_by_a_word_that_was_given_up() -> None:
    found = [
        f"{path.relative_to(ROOT)}: say {instead}"
        for path in sorted((ROOT / "webhook").rglob("*.py"))
        for word, instead in RETIRED_IN_CODE.items()
        if re.search(rf"\b{word}\b", path.stem.replace("_", " "))
    ]
    assert not found, "\n".join(found)


def test_nothing_that_users_read_has_a_word_that_was_given_up() -> None:
    found = []
    for path in _read_by_users():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for word, instead in RETIRED_FOR_USERS.items() if _ANY_FOR_USERS.search(line) else ():
                if re.search(rf"(?<![\w-]){word}(?![\w-])", line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {word}: say {instead}")
    assert not found, "\n".join(found)


def test_each_word_of_the_glossary_names_its_source() -> None:
    rows = [line for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 25
    for row in rows:
        word, meaning, source = (cell.strip() for cell in row.strip("|").split("|"))
        assert word, row
        assert meaning.endswith("."), row
        assert source, row
