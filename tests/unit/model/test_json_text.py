import pytest

from webhook.model.errors import UserError
from webhook.model.json_text import parse_object, shortened


def message(text: object) -> str:
    with pytest.raises(UserError) as caught:
        parse_object(text, "a")
    assert caught.value.path == "a"
    return caught.value.message


def test_an_object_is_read_and_null_is_an_empty_one() -> None:
    assert parse_object('{"a": {"b": 1}}', "a") == ({"a": {"b": 1}}, ())
    assert parse_object(" null ", "a") == ({}, ())


def test_a_character_may_be_written_as_a_surrogate_pair() -> None:
    assert parse_object('{"a": "\\ud83d\\ude00"}', "a") == ({"a": "\N{GRINNING FACE}"}, ())


def test_fields_written_twice_are_named_once() -> None:
    assert parse_object('{"a": 1, "a": 2, "b": 3, "a": 4}', "a") == ({"a": 4, "b": 3}, ("a",))


def test_many_fields_written_twice_take_no_more_time_each_than_few() -> None:
    # The largest annotation there can be; looking for each name among all would take 10**9 steps.
    names = [f"f{number}" for number in range(16_000)]
    _, repeated = parse_object("{" + ",".join(f'"{name}":0,"{name}":1' for name in names) + "}", "a")
    assert repeated == tuple(names)


def test_a_trailing_comma_is_named_with_its_place() -> None:
    assert message('{\n  "numaTopologyPolicy": "SingleNUMANode",\n}').startswith(
        "The JSON is invalid at line 2, column 41: there is a trailing comma. Remove it."
    )


@pytest.mark.parametrize(
    ("text", "likely"),
    [
        ('{"a": [1,]}', "line 1, column 9: there is a trailing comma"),
        ('{"a": 1, }', "line 1, column 8: there is a trailing comma"),
        ('{"a": 1,\n', "line 2, column 1: the text ends too early"),
        ("{'a': 1}", "not in single quotes"),
        ("{\"a\": 'b'}", "not in single quotes"),
        ("{\N{LEFT DOUBLE QUOTATION MARK}a\N{RIGHT DOUBLE QUOTATION MARK}: 1}", "not in typographic ones"),
        ('{"a": 1', "closing brace or quote is missing"),
        ('{"a": ', "closing brace or quote is missing"),
        ('{"a": "b', "closing double quote is missing"),
        ('{"a": "b\n"}', "closing double quote is missing"),
        ('{"a": True}', "True is no JSON value"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{a: "b"}', '"a"'),
        ('{"a": b}', '"b"'),
        ('{"a": 1} }', "after the end of the JSON value"),
        ('{"a": 1} // x', "JSON has no comments"),
        ("a: b", 'looks like YAML: a: b. Write a JSON object, such as {"field": "value"}'),
        ("SingleNUMANode", 'must be a JSON object, such as {"field": "value"}, not SingleNUMANode'),
        ('{"a" "b"}', "':' delimiter"),
        ('{"a": 1 "b": 2}', "',' delimiter"),
        ("   ", "is empty"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "a number of 5000 digits is too long"),
        # An answer that repeated it could not be written as UTF-8.
        ('{"a": "\\ud83d"}', "\\ud83d is half of a surrogate pair"),
        ('{"\\uDE00": 1}', "\\ude00 is half of a surrogate pair"),
    ],
)
def test_the_likely_mistake_is_named(text: str, likely: str) -> None:
    assert likely in message(text)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[]", "must be a JSON object"),
        ("1", "must be a JSON object"),
        ('"SingleNUMANode"', "must be a JSON object"),
        ('"{\\"a\\": 1}"', "Remove one level of quotes"),
        ({"a": 1}, 'must be text that holds a JSON object, not {"a": 1}'),
        (True, "must be text"),
        (None, "must be text"),
    ],
)
def test_what_is_no_json_object_is_told_so(value: object, said: str) -> None:
    assert said in message(value)


def test_a_long_text_is_shown_in_part_and_on_one_line() -> None:
    said = message('{\n"a": "' + "x" * 500)
    assert "\n" not in said
    assert len(said) < 250


def test_what_terminals_obey_is_escaped_where_an_error_repeats_it() -> None:
    assert shortened("rack-1 ä ☃") == "rack-1 ä ☃"
    assert shortened("a\nb\x1b[31m\u202e\ud800") == "a\\nb\\x1b[31m\\u202e\\ud800"
    assert len(shortened("\x1b" * 250_000)) < 300
