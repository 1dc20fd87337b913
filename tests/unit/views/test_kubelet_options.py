"""What is known of a kubelet's options is shown with how it is known."""

from dataclasses import fields, replace
from typing import Any

import pytest

from tests.builders.nodes import node, nrt
from tests.builders.pods import bound
from tests.unit.views.one_node import WRITTEN_AT, details
from webhook.formats.kubernetes.avoided_node import AvoidedNode
from webhook.formats.kubernetes.kubelet_options import NO_OPTIONS, KubeletOptions, stated_options
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.timestamps import utc
from webhook.model.names import KUBELET_OPTIONS
from webhook.views.audit.node_findings import NodeOptions
from webhook.views.nodes import KubeletOptionsView, OptionSource, kubelet_options_views

STATED = {"annotations": {KUBELET_OPTIONS: "prefer-closest-numa-nodes=true,threads-per-core=2,full-pcpus-only=true"}}


def rejected(namespace: str, threads: int = 2, minutes: int = 0) -> dict[str, Any]:
    """A pod that the kubelet of n0 rejected so many minutes after the NRT was written."""
    told = f"Pod was rejected: SMT Alignment Error: requested 3 cpus not multiple cpus per core = {threads}"
    at = utc(WRITTEN_AT + 60 * minutes)
    status = {"phase": "Failed", "reason": "SMTAlignmentError", "message": told, "startTime": at}
    return bound(name="p", namespace=namespace, node="n0", status=status)


def shown(*objects: dict[str, Any], **metadata: Any) -> tuple[KubeletOptionsView, ...]:
    itself = node(name="n0")
    itself["metadata"] |= metadata
    found = details(itself, nrt(node="n0", free=(8, 8)), *objects)
    return found.node.kubelet_options


def test_of_a_usual_kubelet_nothing_is_known() -> None:
    assert shown() == ()


def test_what_is_stated_is_shown_as_it_can_be_stated() -> None:
    (view,) = shown(**STATED)
    assert (view.source, view.namespaces) == (OptionSource.STATED, ())
    assert view.text == "annotation topology-webhook.dev/kubelet-options of its Node"
    assert stated_options({KUBELET_OPTIONS: view.stated_as}, []) == KubeletOptions(2, prefer_closest=True)


@pytest.mark.parametrize("field", fields(KubeletOptions), ids=lambda field: field.name)
def test_every_option_that_can_be_stated_is_shown(field: Any) -> None:
    other: dict[str, Any] = {field.name: 2 if type(field.default) is int else True}
    assert replace(NO_OPTIONS, **other).named() != NO_OPTIONS.named() == {}


def test_what_is_learned_names_the_last_rejection_and_for_whose_pods_it_counts() -> None:
    (view,) = shown(rejected("b", minutes=5), rejected("a", minutes=3))
    assert view == KubeletOptionsView(
        OptionSource.LEARNED,
        {"full-pcpus-only": "true", "threads-per-core": "2"},
        ("a", "b"),
        f"it rejected a pod: SMTAlignmentError at {utc(WRITTEN_AT + 300)}; counts for pods of a, b",
    )


def test_of_many_namespaces_few_are_named() -> None:
    learned = {f"n{number}": AvoidedNode("n0", "SMTAlignmentError", number, 9, 2) for number in range(5)}
    (view,) = kubelet_options_views(Node.from_object(node(name="n0")), None, learned)
    assert view.text.endswith("counts for pods of n0, n1, n2 and 2 more")
    assert len(view.namespaces) == 5


def test_an_option_is_to_be_stated_if_it_is_only_learned() -> None:
    learned = shown(rejected("a"))
    assert NodeOptions("n0", learned).unstated == "full-pcpus-only=true,threads-per-core=2"
    assert NodeOptions("n0", shown(rejected("a"), **STATED)).unstated == ""
    wrong = {"annotations": {KUBELET_OPTIONS: "full-pcpus-only=true,threads-per-core=4"}}
    assert NodeOptions("n0", shown(rejected("a"), **wrong)).unstated == "full-pcpus-only=true,threads-per-core=2"
    assert NodeOptions("n0", shown(rejected("a"), rejected("forger", threads=4))).unstated == ""
    assert NodeOptions("n0", shown(**STATED)).unstated == ""
