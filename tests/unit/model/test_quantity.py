from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.model import golden
from webhook.model.quantity import INT64_MAX, Quantity, QuantityError

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def fits_int64(number: int) -> int | None:
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None


def outcome(text: str) -> dict[str, object]:
    try:
        quantity = Quantity.parse(text)
    except QuantityError as error:
        return {"error": str(error)}
    return {
        "value": fits_int64(quantity.value()),
        "milli": fits_int64(quantity.milli()),
        "canonical": quantity.canonical(),
        "asParsed": quantity.as_parsed(),
    }


def test_every_golden_string_gives_what_kubernetes_gave() -> None:
    cases = list(golden.cases("quantities"))
    assert len(cases) == 400
    assert [case["id"] for case in cases if outcome(case["in"]) != case["expect"]] == []


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("0", 0, 0),
        ("8", 8, 8000),
        ("1500m", 2, 1500),
        ("0.1", 1, 100),
        ("-1.5", -2, -1500),
        ("1n", 1, 1),
        ("0.1n", 1, 1),
        (".5", 1, 500),
        ("5.", 5, 5000),
        ("+2Ki", 2048, 2_048_000),
        ("1E", 10**18, 10**21),
        ("1E3", 1000, 10**6),
        ("1e-3", 1, 1),
        ("16Gi", 2**34, 2**34 * 1000),
        ("99999Ei", INT64_MAX, INT64_MAX * 1000),
    ],
)
def test_the_number_is_exact_and_rounded_away_from_zero(text: str, value: int, milli: int) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.value(), quantity.milli()) == (value, milli)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", " 1", "1 ", "NaN", "inf", "1_000", "1e3Ki", "1e", "1ee3", "0x10", "1,5", "--1", "1..2", "1Kib"),
        *("m", "Gi", "-", ".", "+.k", "\N{ARABIC-INDIC DIGIT ONE}", "1K", "1KI", "1e99999999999", "9" * 300, "1e257"),
    ],
)
def test_what_the_grammar_does_not_know_is_an_error(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@pytest.mark.parametrize(
    ("value", "milli"), [(2, 2000), (0.5, 500), (1e3, 1_000_000), ("  8Gi ", 2**33 * 1000), (None, 0), (1e22, 10**25)]
)
def test_json_numbers_padded_strings_and_null_are_read_as_kubernetes_reads_them(value: object, milli: int) -> None:
    assert Quantity.from_json(value).milli() == milli


@pytest.mark.parametrize("value", [True, False, [], {}, float("nan"), float("inf"), "", b"1"])
def test_other_json_values_are_no_quantity(value: object) -> None:
    with pytest.raises(QuantityError):
        Quantity.from_json(value)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1024Mi", "1Gi"),
        ("1000m", "1"),
        ("0.5Gi", "512Mi"),
        ("512", "512"),
        ("0Ki", "0"),
        ("1000E", "1e21"),
        ("1Ki", "1Ki"),
    ],
)
def test_the_canonical_spelling_has_no_fraction_and_the_largest_suffix(text: str, canonical: str) -> None:
    assert Quantity.parse(text).canonical() == canonical


def test_equal_amounts_are_equal_however_they_are_written() -> None:
    assert len({Quantity.parse(text) for text in ("8Gi", "8192Mi", "8589934592")}) == 1
    assert Quantity.parse("1") != Quantity.parse("1001m")
    assert Quantity.parse("1") != 1
    assert repr(Quantity.parse("+1.")) == "Quantity('+1.')"


SPELLINGS = st.builds(
    lambda sign, whole, fraction, suffix: (f"{sign}{whole}.{fraction}{suffix}", sign, whole, fraction, suffix),
    st.sampled_from(["", "+", "-"]),
    st.text("0123456789", min_size=1, max_size=12),
    st.text("0123456789", max_size=6),
    st.sampled_from([*DECIMAL, *BINARY]),
)


@given(SPELLINGS)
def test_any_spelling_is_the_fraction_it_writes(spelling: tuple[str, str, str, str, str]) -> None:
    text, sign, whole, fraction, suffix = spelling
    unit = Fraction(1024) ** BINARY[suffix] if suffix in BINARY else Fraction(10) ** DECIMAL[suffix]
    exact = Fraction(int(whole + fraction), 10 ** len(fraction)) * unit
    in_nano = -(-exact * 10**9 // 1)  # rounded up
    if suffix in BINARY:
        in_nano = min(in_nano, INT64_MAX * 10**9)
    expected = -(-in_nano // 10**6)
    assert Quantity.parse(text).milli() == (-expected if sign == "-" else expected)


@given(SPELLINGS)
def test_the_canonical_spelling_is_the_same_amount_and_canonical(spelling: tuple[str, str, str, str, str]) -> None:
    quantity = Quantity.parse(spelling[0])
    again = Quantity.parse(quantity.canonical())
    assert again == quantity
    assert again.canonical() == quantity.canonical()


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    with suppress(QuantityError):
        assert Quantity.parse(text).canonical()
