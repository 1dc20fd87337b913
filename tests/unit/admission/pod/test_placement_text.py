"""The annotation for people."""

from webhook.admission.pod.placement_text import annotated

# What `kubectl describe` shows of a line of an annotation.
SHOWN = 138


def test_each_clause_stands_on_a_line_of_its_own() -> None:
    assert annotated("1 of 2 nodes fits; best a (score 9); excluded: 1 cordoned") == (
        "1 of 2 nodes fits\nbest a (score 9)\nexcluded: 1 cordoned"
    )


def test_no_line_is_longer_than_kubectl_describe_shows_and_no_word_is_lost() -> None:
    text = "best " + ", ".join(f"gpu-node-{number:03}.example.com (score 90, NUMA 0)" for number in range(9))
    lines = annotated(text).splitlines()
    assert max(map(len, lines)) <= SHOWN
    assert " ".join(" ".join(lines).split()) == text
