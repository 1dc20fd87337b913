"""`topology-webhook doctor`: its flags, and what each check says of what it read.

tests/integration/test_doctor.py runs it on the control plane.
"""

import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from certs import CABundle
from certs.authority import Authority
from tests.builders.clusters import cluster_cache, machine
from tests.builders.nodes import node, nrt
from tests.builders.pods import GATES, created
from tests.builders.times import SECOND, stamp, written
from tests.builders.topologies import topology
from webhook.admission.pod.mutation import mutate_pod
from webhook.app.settings import Settings, rules_of
from webhook.cli.app import app
from webhook.cli.doctor.checks import NAMES
from webhook.cli.doctor.configurations import judge_configuration, judge_protection
from webhook.cli.doctor.finding import Finding, Level, some
from webhook.cli.doctor.nodes import (
    Fleet,
    judge_exporters,
    judge_levels,
    judge_policies,
    judge_waiting,
    take_pod,
)
from webhook.cli.doctor.release import judge_version
from webhook.cli.doctor.replicas import judge_leader, judge_replicas, judge_versions
from webhook.cli.doctor.rights import judge_clocks, leader_skew
from webhook.cli.doctor.state import expected_text, judge_agreement, text_of
from webhook.cli.doctor.trial_pods import BAD, judge_admitted, judge_denial, judge_refusal, trial_pod
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.node import Node
from webhook.formats.nrt import NodeTopology
from webhook.formats.topology import Topology
from webhook.kube.api_errors import APIError
from webhook.kube.election import LeaseRecord
from webhook.model.errors import UserError
from webhook.model.names import (
    KOORDINATOR_NODE_POLICY_LABEL,
    NUMA_TOPOLOGY_SPEC,
    PLACEMENT,
)
from webhook.version import VERSION

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OK, WARN, FAIL = Level.OK, Level.WARN, Level.FAIL


def run(*arguments: object) -> Result:
    environment = dict.fromkeys((name for name in os.environ if name.startswith("KUBE")), None)
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)], env=environment)


def test_every_check_is_documented_in_its_order() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    section = page.partition("## Check an installation\n")[2].partition("\n## ")[0]
    table = section.partition("| check | fails if | warns if |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == list(NAMES)


@pytest.mark.parametrize("flag", ["--name", "--namespace", "--trial-namespace"])
def test_a_name_that_would_change_the_path_is_rejected(flag: str) -> None:
    result = run(flag, "a/../b")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{flag}: 'a/../b' is not a name" in result.stderr


def test_without_an_api_server_nothing_is_checked(tmp_path: Any) -> None:
    result = run("--kubeconfig", tmp_path / "none")
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(tmp_path / "none") in result.stderr


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ("v1.29.9", FAIL),
        ("v1.30.14", OK),
        ("v1.33.5-eks-3abbec1", OK),
        ("v1.31.4-gke.1183000", OK),
        ("v2.0.0", OK),
        ("None", WARN),
    ],
)
def test_an_api_server_older_than_1_30_fails(version: str, level: Level) -> None:
    found = judge_version(version, "https://api")
    assert found.level is level
    assert version in found.text


def deployment(replicas: int = 2, image: str = "none:1", version: str = VERSION) -> dict[str, Any]:
    template = {"spec": replica("any", image=image)["spec"]}
    metadata = {"name": "tw", "namespace": "placement", "labels": {"app.kubernetes.io/version": version}}
    return {"metadata": metadata, "spec": {"replicas": replicas, "template": template}}


def replica(name: str, *, ready: bool = True, image: str = "none:1") -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(ready)}
    container = {"name": "webhook", "image": image}
    return created(name=name, metadata={"name": name}, containers=[container]) | {"status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("ready", "elsewhere", "level", "text"),
    [
        (2, False, OK, "2 ready: a-0, a-1"),
        (1, False, WARN, "1 of 2 replicas are ready: a-0"),
        (0, False, FAIL, "no replica is ready; the Deployment wants 2"),
        (0, True, WARN, "no replica is ready; the Deployment wants 2"),
    ],
)
def test_replicas_count_if_they_are_ready(ready: int, elsewhere: bool, level: Level, text: str) -> None:
    pods = [replica(f"a-{number}", ready=number < ready) for number in range(2)]
    found = judge_replicas(deployment(), pods, elsewhere=elsewhere)
    assert (found.level, found.text) == (level, text)


def test_an_old_image_and_another_version_are_named() -> None:
    assert [each.level for each in judge_versions(deployment(), [replica("a-0")])] == [OK]
    old, skew = judge_versions(deployment(version="0.0.1"), [replica("a-0", image="none:0"), replica("a-1")])
    assert (old.level, old.text) == (WARN, "not of the Deployment's image: a-0")
    assert (skew.level, skew.text) == (WARN, f"the release is 0.0.1, this program is {VERSION}")


@pytest.mark.parametrize(
    ("holder", "address", "replicas", "level"),
    [
        ("a-0_1f", "10.0.0.7:8445", 2, OK),
        ("a-0_1f", "", 1, OK),
        ("a-0_1f", "", 2, WARN),
        ("gone_1f", "10.0.0.7:8445", 2, WARN),
    ],
)
def test_the_leader_is_a_ready_pod_that_others_can_ask(holder: str, address: str, replicas: int, level: Level) -> None:
    pods = [replica(f"a-{number}") for number in range(replicas)]
    record = LeaseRecord("1", holder, address=address)
    assert judge_leader(record, pods, elsewhere=False).level is level


def configuration(*bundles: str) -> dict[str, Any]:
    webhooks = [{"name": f"w{number}", "clientConfig": {"caBundle": text}} for number, text in enumerate(bundles)]
    return {"metadata": {"name": "tw"}, "webhooks": webhooks}


def bundle(begin: datetime) -> str:
    return CABundle.of([Authority.create("doctor", begin).certificate]).ca_bundle


@pytest.mark.parametrize(
    ("bundles", "level", "text"),
    [
        (("",), FAIL, "w0 has no caBundle"),
        (("bm9uZQ==",), FAIL, "the caBundle of w0 cannot be read"),
        (("%",), FAIL, "the caBundle of w0 cannot be read"),
        ((), FAIL, "has no webhooks"),
    ],
)
def test_a_webhook_without_a_readable_ca_fails(bundles: tuple[str, ...], level: Level, text: str) -> None:
    found = judge_configuration("mutating", configuration(*bundles), NOW)
    assert found.level is level
    assert text in found.text


def test_a_ca_counts_while_it_is_valid() -> None:
    good = bundle(NOW)
    assert judge_configuration("mutating", configuration(good, good), NOW).level is OK
    late = judge_configuration("mutating", configuration(good), NOW + timedelta(days=36_500))
    assert (late.level, "no CA in the caBundle of w0 is valid now" in late.text) == (FAIL, True)
    early = judge_configuration("mutating", configuration(good), NOW - timedelta(days=1))
    assert early.level is FAIL


def test_without_the_extra_for_serving_the_ca_is_not_examined_and_its_absence_still_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = bundle(NOW)
    monkeypatch.setitem(sys.modules, "certs", None)  # as if a package that it imports were not installed
    found = judge_configuration("mutating", configuration(good), NOW)
    assert (found.level, "their CA was not examined" in found.text) == (Level.WARN, True)
    assert judge_configuration("mutating", configuration(good, ""), NOW).level is FAIL


def test_the_bad_pod_is_wrong_and_the_good_one_is_not() -> None:
    with pytest.raises(UserError):
        parse_numa_intent(trial_pod("bad", BAD)["metadata"]["annotations"])


def admitted(**metadata: Any) -> Finding:
    return judge_admitted(created(name="good", annotations={PLACEMENT: "waits\nfor room"}, **metadata), "default")


def test_a_good_pod_has_a_decision() -> None:
    assert judge_admitted(created(name="good"), "default").level is FAIL
    assert admitted().text == "admitted in default, not gated: waits"
    assert admitted(schedulingGates=GATES).text == "admitted in default, gated: waits"


def test_the_answer_of_a_replica_must_be_that_of_fresh_lists() -> None:
    settings = Settings()
    raw = trial_pod("state", '{"numaTopologyPolicy": "SingleNUMANode"}')
    cache = cluster_cache(*machine(name="n0", free=[8]), *machine(name="n1", free=[0]))
    expected = expected_text(raw, cache, settings)
    assert "1 of 2 nodes fit" in expected
    assert judge_agreement(expected, expected, "ns").level is Level.OK
    differs = judge_agreement("waits: 2 of 2 nodes fit", expected, "ns")
    assert differs.level is Level.WARN
    assert "waits: 2 of 2 nodes fit" in differs.text


def test_the_answer_is_compared_for_the_pod_as_the_service_has_changed_it() -> None:
    settings = Settings()
    cache = cluster_cache(*machine(name="n0", free=[8]))
    raw = created(name="state")
    answered = dict(mutate_pod(raw, cache.snapshot(), rules_of(settings)).mutated)
    assert text_of(answered)
    assert expected_text(answered, cache, settings) == text_of(answered)


def answer(message: str, status: int = 500) -> APIError:
    return APIError(status, "InternalError", message)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            'failed calling webhook "w": x509: signed by unknown authority',
            "does not accept its certificate",
        ),
        ('failed calling webhook "w": no endpoints available', "cannot reach the service"),
        ("exceeded quota", "a good pod is refused"),
    ],
)
def test_a_refused_good_pod_names_the_reason(message: str, text: str) -> None:
    found = judge_refusal(answer(message), "default")
    assert found.level is FAIL
    assert text in found.text
    assert message in found.text


@pytest.mark.parametrize(
    ("message", "level"),
    [
        (f'admission webhook "w" denied the request: {NUMA_TOPOLOGY_SPEC}: unknown policy', OK),
        (f'failed calling webhook "w": {NUMA_TOPOLOGY_SPEC}', FAIL),
        ("exceeded quota", FAIL),
    ],
)
def test_a_bad_pod_is_denied_for_its_annotation(message: str, level: Level) -> None:
    assert judge_denial(answer(message, 403), "default").level is level


def fleet(*names: str, published: tuple[str, ...] = (), policy: str = "", **how: Any) -> Fleet:
    labels = {KOORDINATOR_NODE_POLICY_LABEL: policy} if policy else {}
    nodes = {name: Node.from_object(node(name=name, labels=labels)) for name in names}
    topologies = {name: NodeTopology.from_object(nrt(node=name, free=(8, 8), **how)) for name in published}
    return Fleet(nodes, topologies)


def test_a_node_without_numa_nodes_is_named_and_none_at_all_fails() -> None:
    assert judge_exporters(fleet("a", "b", published=("a", "b")), SECOND)[0].level is OK
    (missing,) = judge_exporters(fleet("a", "b", published=("a",)), SECOND)
    assert (missing.level, missing.text) == (WARN, "1 of 2 nodes publish no NUMA nodes: b")
    (none,) = judge_exporters(fleet("a", "b"), SECOND)
    assert none.level is FAIL


def test_a_topology_of_a_node_that_is_gone_is_named() -> None:
    (gone,) = judge_exporters(fleet("a", published=("a", "b")), SECOND)
    assert (gone.level, gone.text) == (WARN, "of nodes that do not exist: b")


@pytest.mark.parametrize(
    ("written_at", "now", "level"),
    [(0, 500, WARN), (101, 500, OK), (0, 200, OK)],
    ids=["not-since", "since", "not-yet"],
)
def test_an_exporter_that_shows_no_new_pod_is_named(written_at: int, now: int, level: Level) -> None:
    one = fleet("a", published=("a",), metadata=written(written_at))
    bound = created(nodeName="a")
    bound["status"] = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(100)}]}
    take_pod(one, bound)
    assert [each.level for each in judge_exporters(one, SECOND + now)] == [level]


def test_policies_that_disagree_or_cannot_be_read_are_named() -> None:
    assert judge_policies(fleet("a", published=("a",)))[0].level is OK
    (disagree,) = judge_policies(fleet("a", published=("a",), policy="Restricted"))
    assert disagree.text.endswith("a (label RESTRICTED, topology SINGLE_NUMA_NODE)")
    (unknown,) = judge_policies(fleet("a", published=("a",), policy="Other"))
    assert unknown.text.startswith("policies that cannot be read: a (")


def labelled(name: str, **labels: str) -> Node:
    return Node.from_object(node(name=name, labels=labels))


def test_levels_of_topologies_whose_label_nodes_lack_are_named() -> None:
    of = Topology.from_object(topology(name="dc", labels=("hall", "rack")))
    assert judge_levels(fleet("a"), ())[0].text == "0 Topologies: every node is in a domain at each level"
    some_lack, none_has = judge_levels(Fleet({"a": labelled("a", hall="h"), "b": labelled("b")}), [of])
    assert (some_lack.level, some_lack.text) == (WARN, "1 of 2 nodes lack the label hall of Topology dc: b")
    assert (none_has.level, none_has.text) == (WARN, "no node has the label rack of Topology dc")
    nodes = {"a": labelled("a", hall="h1", rack="r"), "b": labelled("b", hall="h2", rack="r")}
    (repeated,) = judge_levels(Fleet(nodes), [of])
    assert (repeated.level, repeated.text) == (WARN, "rack of Topology dc in several domains: r (h1, h2)")


def test_pods_with_a_strict_policy_where_nothing_enforces_it_are_named() -> None:
    one = fleet("a", "b", published=("a", "b"), policy="None")
    take_pod(one, created(nodeName="a"))
    take_pod(one, created(name="other", numa=None, nodeName="b"))
    (found,) = [each for each in judge_policies(one) if "strict" in each.text]
    assert found.level is WARN
    assert found.text == (
        "1 pod asks for a strict NUMA policy on nodes that enforce none (2 of 2, policy none): default/p"
    )


def test_gated_pods_fail_only_if_nothing_places_them() -> None:
    one = fleet()
    assert judge_waiting(one, 0, placed=False)[0].level is OK
    take_pod(one, created(schedulingGates=GATES))
    (waits,) = judge_waiting(one, one.waiting[0] + 200, placed=True)
    assert (waits.level, waits.text) == (OK, "1 pod is gated, the oldest for 3 min")
    (stuck,) = judge_waiting(one, one.waiting[0] + 200, placed=False)
    assert (stuck.level, "ungate --all" in stuck.cure) == (FAIL, True)


@pytest.mark.parametrize(("skew", "level"), [(0.0, OK), (5.0, OK), (6.0, WARN), (301.0, FAIL)])
def test_a_clock_may_differ_by_seconds(skew: float, level: Level) -> None:
    assert [each.level for each in judge_clocks({"the leader": skew})] == [level]


def test_the_leaders_clock_is_compared_with_when_the_api_server_stored_its_renewal() -> None:
    fields = [{"time": stamp(10)}, {"time": stamp(70)}]
    lease = {"metadata": {"managedFields": fields}, "spec": {"renewTime": f"{stamp(60)[:-1]}.123456Z"}}
    assert leader_skew(lease) == 10
    assert leader_skew({"metadata": {}, "spec": {}}) is None


def test_a_long_list_of_names_is_cut() -> None:
    assert some([f"n{number}" for number in range(8)]) == "n0, n1, n2, n3, n4 and 3 more"


@pytest.mark.parametrize(("action", "level"), [("Deny", OK), ("Audit", WARN)])
def test_policies_that_deny_nothing_protect_nothing(action: str, level: Level) -> None:
    finding = judge_protection({"tw-pods": {"spec": {"validationActions": [action]}}})
    assert finding.level is level
    assert ("tw-pods denies nothing" in finding.text) == (level is WARN)


def test_missing_policies_are_named() -> None:
    finding = judge_protection({"tw-pods": None, "tw-bindings": {"spec": {"validationActions": ["Deny"]}}})
    assert finding.level is WARN
    assert "no ValidatingAdmissionPolicyBinding tw-pods:" in finding.text
