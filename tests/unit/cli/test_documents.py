"""Objects in files: the position of each, and the error if one cannot be read."""

import io
import json
from pathlib import Path

import pytest

from webhook.cli.input import documents
from webhook.cli.input.documents import InputError, Item, read
from webhook.cli.input.yaml_text import load_all

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.yaml"


def _read(file: Path, content: str | bytes) -> list[Item]:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read([str(file)]))


def test_documents_are_numbered_as_they_stand_empty_ones_included(file: Path) -> None:
    items = _read(file, f"# nothing\n---\n---\n{POD}---\n{POD}")
    assert [(item.document, item.line) for item in items] == [(2, 4), (3, 8)]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_marks_and_windows_line_ends_are_fine(file: Path, ending: str, mark: str) -> None:
    (item,) = _read(file, mark + POD.replace("\n", ending))
    assert (item.kind, item.name, item.line) == ("Pod", "p", 1)


def test_json_may_hold_several_objects(file: Path) -> None:
    one = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, indent=1)
    assert [item.line for item in _read(file, f"{one}\n{one}\n")] == [1, 8]


@pytest.mark.parametrize("first", ["", "---\n", "\n---\r\n"])
def test_json_objects_may_be_separated_as_yaml_documents(
    file: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, indent=1)
    text = f"{first}{one}\n---\n{one}\n---\n{one}\n---\n"
    as_yaml = [(number, line, body) for number, (line, body) in enumerate(load_all(text), 1) if body is not None]
    monkeypatch.setattr(documents, "load_all", None)  # only the faster parser is left
    assert [(item.document, item.line, item.body) for item in _read(file, text)] == as_yaml


def test_separated_json_objects_cannot_have_a_key_twice(file: Path) -> None:
    with pytest.raises(InputError, match="the key 'kind' appears twice in one object"):
        _read(file, '---\n{"apiVersion": "v1", "kind": "Pod"}\n---\n{"kind": "Pod", "kind": "Node"}')


def test_an_empty_document_between_json_objects_counts(file: Path) -> None:
    one = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}\n'
    assert [item.document for item in _read(file, f"{one}---\n---\n{one}")] == [1, 3]


def test_lines_are_counted_once_however_many_objects_there_are(file: Path) -> None:
    # Counted from the start for each object, this would take a minute.
    one = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, indent=1)
    assert _read(file, f"{one}\n" * 20_000)[-1].line == 19_999 * 7 + 1


def test_json_may_write_characters_as_surrogate_pairs(file: Path) -> None:
    (item,) = _read(file, r'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "\ud83d\ude00"}}')
    assert item.name == "\U0001f600"


def test_yaml_may_look_like_json(file: Path) -> None:
    (item,) = _read(file, "{apiVersion: v1, kind: Pod, metadata: {name: p}}")
    assert item.name == "p"


def test_lists_are_opened_also_within_lists(file: Path) -> None:
    inner = {
        "apiVersion": "v1",
        "kind": "PodList",
        "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}],
    }
    (item,) = _read(file, json.dumps({"apiVersion": "v1", "kind": "List", "items": [inner]}))
    assert (item.prefix, item.name) == ("items[0].items[0].", "p")


def test_directories_stand_for_their_files(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "d.txt"):
        (tmp_path / name).write_text(POD.replace("{name: p}", f"{{name: {name[0]}}}"))
    assert [item.name for item in read([str(tmp_path)])] == ["a", "b", "c"]


def test_stdin_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    (item,) = read(["-"])
    assert item.source.name == "stdin"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "there is no Kubernetes object in it"),
        ("# only words\n---\n", "there is no Kubernetes object in it"),
        ("kind: [", "line 2: not YAML: while parsing a flow node"),
        ('{"kind": "Pod"', "line 1: not JSON: Expecting ',' delimiter"),
        ('{"kind": NaN]', "not JSON: NaN is not a JSON number"),
        ('{"kind": -1e999]', "not JSON: -1e999 is not a JSON number"),
        ('{"x":' * 100_000, "nested too deeply"),
        (r'{"kind": "\ud83d\ude00 \ud800"}', r"not JSON: '\ud800' is half of a surrogate pair"),
        (b"kind: Pod\nname: \xff\xfe", "line 2: byte 0xff is not UTF-8 text"),
        ("a\x00b", "line 1: not YAML: the character U+0000"),
        (
            "just text",
            "document 1, line 1: a Kubernetes object (apiVersion, kind, metadata, ...) is needed here, not text",
        ),
        (f"{POD}---\n- 1\n", "document 2, line 5: a Kubernetes object"),
        ("metadata: {name: p}\nkind: Pod", "document 1, line 1: apiVersion: This is missing."),
        ("metadata: {name: p}\napiVersion: v1", "document 1, line 1: kind: This is missing."),
        ("apiVersion: v1\nkind: 3", "document 1, line 2: kind: This must be text, not 3."),
        ("apiVersion: v1\nkind: Pod", "document 1, line 1: metadata: This is missing."),
        ("apiVersion: v1\nkind: Pod\nmetadata: []", "document 1, line 3: metadata: This must be an object, not []."),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  labels: {}", "document 1, line 3: metadata.name: This is missing."),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: 7",
            "document 1, line 4: metadata.name: This must be text, not 7.",
        ),
        ("apiVersion: v1\nkind: List\nitems: 3", "document 1, line 3: items: This must be a list, not 3."),
        (
            "apiVersion: v1\nkind: List\nitems:\n- 3",
            "document 1, line 1: items[0]: a Kubernetes object (apiVersion, kind, metadata, ...) is needed here, ",
        ),
        (
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {}",
            "document 1, line 6: items[0].metadata.name: This is missing.",
        ),
    ],
)
def test_faults_name_file_document_line_and_field(file: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(InputError) as told:
        _read(file, content)
    assert str(told.value).startswith(f"{file}: {message}")


def test_missing_files_and_empty_directories_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.yaml: No such file or directory"):
        list(read([str(tmp_path / "missing.yaml")]))
    with pytest.raises(InputError, match=r"no file in this directory ends in \.yaml, \.yml, \.json"):
        list(read([str(tmp_path)]))
