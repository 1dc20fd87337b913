"""Error messages have a bounded length."""

from webhook.model.errors import UserError, UserErrors, sentences
from webhook.model.wording import nearest, quoted


def test_of_thousands_of_faults_the_first_ones_are_told_and_the_others_counted() -> None:
    faults = [UserError(f"spec.f{n}", "This is wrong.") for n in range(40_000)]
    told = sentences(faults)
    assert told.startswith("spec.f0: This is wrong. spec.f1")
    assert told.endswith("spec.f9: This is wrong. There are 39990 more faults.")
    assert len(UserErrors(faults).faults) == 10


def test_a_path_and_a_message_are_cut() -> None:
    error = UserError("p" * 100_000, "m" * 100_000)
    assert (len(error.path), len(error.message)) == (500, 2000)


def test_a_value_is_quoted_no_longer_than_a_person_reads() -> None:
    assert quoted("x" * 60) == repr("x" * 60)
    assert quoted("x" * 61) == repr("x" * 60) + "…"
    assert quoted({"a": [1, 2, 3, 4, 5], "b": {"c": {"d": 1}}}) == "{'a': [1, 2, 3, ...], 'b': {'c': {'d': 1}}}"
    assert quoted({str(n): n for n in range(9)}) == "{'0': 0, '1': 1, '2': 2, …}"
    assert quoted(10**5000) == f"a number of {(10**5000).bit_length()} bits"
    assert quoted(8) == "8"
    assert len(quoted([["x" * 1000] * 1000] * 1000)) < 1000


def test_nothing_is_near_to_what_no_name_is_as_long_as() -> None:
    assert nearest("SingleNUMANode" * 100, ["SingleNUMANode"]) is None
    assert nearest("single-numa-node", ["SingleNUMANode", "x" * 1000]) == "SingleNUMANode"
