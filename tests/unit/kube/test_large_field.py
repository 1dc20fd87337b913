"""Which events of a watch are not decoded whole."""

import json
from typing import Any

import pytest

from tests.unit.kube.informing import Copy, informing, until
from tests.unit.kube.listwatch import BREAK, HOLD, ListWatch, event
from webhook.kube.large_field import LargeField
from webhook.model.raw import Raw

ZONES = [{"name": "node-0", "resources": [{"name": "cpu", "available": "4"}]}]


class Store(Copy):
    """What reaches the handler: `+` for a whole object, `~` for one without its zones."""

    def __init__(self, *, knows: bool = True) -> None:
        super().__init__()
        self.knows = knows

    def upsert(self, key: str, raw: Raw) -> None:
        self.log.append(f"+{key} {json.dumps(raw.get('zones'))}")

    def upsert_rest(self, key: str, raw: Raw) -> bool:
        assert "zones" not in raw
        if self.knows:
            self.log.append(f"~{key} {raw['metadata']['resourceVersion']}")
        return self.knows


def nrt(version: int, zones: Any = ZONES, *, name: str = "n0", **fields: Any) -> dict[str, Any]:
    """An NRT with its fields in the order in which the API server writes them."""
    metadata = {"name": name, "resourceVersion": str(version), **fields}
    return {"apiVersion": "topology.node.k8s.io/v1alpha2", "metadata": metadata, "zones": zones}


def line(kind: str, raw: Raw) -> bytes:
    return text_of({"type": kind, "object": raw})


def text_of(raw: Raw) -> bytes:
    return json.dumps(raw, separators=(",", ":")).encode()


def test_an_event_with_the_same_field_is_taken_without_it() -> None:
    field = LargeField("zones", Store().upsert_rest)
    field.decoded("n0", line("MODIFIED", nrt(1)))
    assert field.take(line("MODIFIED", nrt(2))) == {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "metadata": {"name": "n0", "resourceVersion": "2"},
    }


def test_the_same_text_within_a_string_is_not_the_field() -> None:
    field = LargeField("zones", Store().upsert_rest)
    field.decoded("n0", line("MODIFIED", nrt(1)))
    taken = field.take(line("MODIFIED", nrt(2, annotations={"a": ',"zones":[]'})))
    assert taken is not None
    assert taken["metadata"]["annotations"] == {"a": ',"zones":[]'}


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("MODIFIED", nrt(2, [])),
        ("MODIFIED", nrt(2, name="n1")),
        ("MODIFIED", {"metadata": {"name": "n0", "resourceVersion": "2"}}),
        ("MODIFIED", {"zones": ZONES, "metadata": {"name": "n0"}}),
        ("ADDED", nrt(2)),
        ("DELETED", nrt(2)),
        # A field of that name, but not of the object itself.
        ("MODIFIED", nrt(2, annotations={"a": 1, "zones": ZONES})),
        ("MODIFIED", nrt(2, [{"a": 1, "zones": ZONES}])),
    ],
)
def test_any_other_event_is_decoded_whole(kind: str, raw: Raw) -> None:
    field = LargeField("zones", Store().upsert_rest)
    field.decoded("n0", line("MODIFIED", nrt(1)))
    assert field.take(line(kind, raw)) is None


def test_an_event_that_is_cut_off_is_decoded_whole_and_fails_there() -> None:
    field = LargeField("zones", Store().upsert_rest)
    field.decoded("n0", line("MODIFIED", nrt(1)))
    assert field.take(line("MODIFIED", nrt(2))[:-1]) is None


def test_an_object_that_the_handler_cannot_complete_is_decoded_whole() -> None:
    field = LargeField("zones", Store(knows=False).upsert_rest)
    field.decoded("n0", line("MODIFIED", nrt(1)))
    assert field.take(line("MODIFIED", nrt(2))) is None


def test_an_event_with_the_field_of_the_list_is_taken_without_it() -> None:
    field = LargeField("zones", Store().upsert_rest)
    field.listed("n0", text_of(nrt(1)))
    assert field.take(line("MODIFIED", nrt(2))) is not None
    assert field.take(line("MODIFIED", nrt(2, []))) is None


def test_an_event_after_a_list_without_the_text_of_the_object_is_decoded_whole() -> None:
    field = LargeField("zones", Store().upsert_rest)
    field.decoded("n0", line("MODIFIED", nrt(1)))
    field.listed("n0", None)
    assert field.take(line("MODIFIED", nrt(2))) is None


def test_an_event_with_another_end_is_decoded_whole() -> None:
    field = LargeField("zones", Store().upsert_rest)
    field.decoded("n0", line("MODIFIED", nrt(1)))
    assert field.take(line("MODIFIED", nrt(2))[:-1] + b"]") is None


async def test_an_informer_decodes_only_what_has_changed() -> None:
    script = ListWatch()
    script.objects["n0"] = nrt(100)
    changed = nrt(203, [])
    script.watches.extend(
        [
            [_event(nrt(201)), _event(nrt(202)), _event(changed), _event(nrt(204, [])), event("DELETED", changed)],
            [_event(nrt(301)), BREAK],
            [_event(nrt(302)), HOLD],
        ]
    )
    store = Store()
    async with informing(script, copy=store, large_field=LargeField("zones", store.upsert_rest)):
        await until(lambda: store.log[-1:] == ["~n0 302"])
    whole = json.dumps(ZONES)
    assert store.log == [
        f"+n0 {whole}",
        "~n0 201",
        "~n0 202",
        "+n0 []",
        "~n0 204",
        "-n0",
        f"+n0 {whole}",
        "~n0 302",
    ]
    # Each watch continues from the last event, decoded whole or not.
    assert script.watch_versions == ["100", "203", "301"]


def _event(raw: dict[str, Any]) -> bytes:
    return line("MODIFIED", raw) + b"\n"
