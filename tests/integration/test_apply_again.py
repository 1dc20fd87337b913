"""Repeated `kubectl apply` of a pod's manifest, on the real control plane: merges keep what the service adds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.cluster.control_plane import CommandError
from tests.cluster.gated import Pods, pod, scheduler_paused
from tests.cluster.nodes import Machine, publish_all
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

LINUX: Final = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
ARCH: Final = {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "Exists"}]}
REQUIRED: Final = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [LINUX, ARCH]}}
PREFERRED: Final = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": LINUX}]}
SELECTOR: Final = {"nodeSelector": {"kubernetes.io/os": "linux"}}

SPECS: Final[dict[str, dict[str, Any]]] = {
    "neither": {},
    "selector": SELECTOR,
    "required": {"affinity": {"nodeAffinity": REQUIRED}},
    "preferred": {"affinity": {"nodeAffinity": PREFERRED}},
    "all-affinity": {"affinity": {"nodeAffinity": REQUIRED | PREFERRED}},
    "empty": {"affinity": {}, "nodeSelector": {}},
    "both": {"affinity": {"nodeAffinity": REQUIRED}, **SELECTOR},
    "hostname": {"affinity": {"nodeAffinity": REQUIRED}, "nodeSelector": {"kubernetes.io/hostname": "n0"}},
}


SPREAD: Final = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {},
}
SERVER_SIDE: Final = ("--server-side",)
FULL: Final = (1, 1)
FREE: Final = (16, 16)
FLEET: Final = ("n0", "n1", "n2", "n3")


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    with local_webhook(control_plane, values={"settings": {"gate": "WhenNeeded"}}) as webhook:
        yield webhook


class Kubectl:
    """kubectl in the pods' namespace. It applies client-side or server-side."""

    def __init__(self, pods: Pods, way: tuple[str, ...] = ()) -> None:
        self._pods = pods
        self._way = way

    def apply(self, *raws: dict[str, Any]) -> str:
        """The output of kubectl. Raises CommandError for a denial or a warning."""
        return self._run("apply", "--warnings-as-errors", *raws)

    def apply_and_be_warned(self, *raws: dict[str, Any]) -> str:
        """The warnings of kubectl."""
        with pytest.raises(CommandError) as error:
            self.apply(*raws)
        return str(error.value)

    def diff(self, *raws: dict[str, Any]) -> str:
        """What would change. Raises CommandError (exit code 1) if anything would."""
        return self._run("diff", *raws)

    def _run(self, command: str, *more: Any) -> str:
        flags = [flag for flag in more if isinstance(flag, str)]
        items = [{"apiVersion": "v1", "kind": "Pod", **raw} for raw in more if not isinstance(raw, str)]
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        arguments = (command, *flags, *self._way, "--namespace", self._pods.namespace, "--filename", "-")
        return self._pods.plane.kubectl(*arguments, input=manifest)

    def unchanged(self, *raws: dict[str, Any]) -> None:
        """Applying again succeeds and changes nothing visible."""
        before = self._seen()
        assert self.diff(*raws) == ""
        self.apply(*raws)
        assert self._seen() == before

    def _seen(self) -> dict[str, Any]:
        return {
            name: (raw["spec"], raw["metadata"]["annotations"], raw["metadata"].get("labels"))
            for name, raw in self._pods.all().items()
        }


def of_every_kind(**annotations: str) -> list[dict[str, Any]]:
    return [pod(name, cpu=2, annotations=annotations, **spec) for name, spec in SPECS.items()]


@pytest.mark.parametrize("way", [(), SERVER_SIDE], ids=["client-side", "server-side"])
def test_manifests_of_bare_pods_can_be_applied_again_while_they_wait_and_when_they_are_placed_and_bound(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, way: tuple[str, ...]
) -> None:
    # n0 .. n3 ── NUMA 0 [1]  NUMA 1 [1]      [free cpus of 16]
    known(*(Machine(name, free=FULL) for name in FLEET))
    kubectl, raws = Kubectl(pods, way), of_every_kind(**{"topology-webhook.dev/inject-env": "true"})
    assert "none of 4 nodes fits now" in kubectl.apply_and_be_warned(*raws)
    assert pods.gated() == SPECS.keys()
    kubectl.unchanged(*raws)
    with scheduler_paused(control_plane):
        publish_all(control_plane.api, [Machine(name, free=FREE) for name in FLEET])
        control_plane.wait_for("all to be placed", lambda: not pods.gated())
        # Its user was told: server-side apply takes nodeSelector as one value.
        raws = [raw for raw in raws if not (way and raw["metadata"]["name"] == "both")]
        kubectl.unchanged(*raws)
    pods.wait_until_bound(*SPECS)
    kubectl.unchanged(*raws)
    assert {name: pods.allocation(name)[0] for name in SPECS} == pods.bound()
    for name, found in pods.all().items():
        own = SPECS[name].get("affinity", {}).get("nodeAffinity", {})
        held = found["spec"]["affinity"].get("nodeAffinity", {})
        assert {**held, **own} == held


def test_what_was_applied_client_side_can_be_applied_server_side(known: Callable[..., None], pods: Pods) -> None:
    known(Machine("n0", free=FREE))
    raw = pod("a", cpu=2, **SPECS["required"])
    Kubectl(pods).apply(raw)
    pods.wait_until_bound("a")
    Kubectl(pods, SERVER_SIDE).unchanged(raw)


def test_labels_and_annotations_can_be_changed_by_another_apply_while_a_pod_waits_and_afterwards(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(Machine("n0", free=FULL))
    kubectl = Kubectl(pods)
    names = ["required", "selector", "both", "neither"]
    kubectl.apply_and_be_warned(*(pod(name, cpu=4, **SPECS[name]) for name in names))

    def changed(text: str) -> None:
        raws = [pod(name, cpu=4, annotations={"example.com/note": text}, **SPECS[name]) for name in names]
        kubectl.apply(*({**raw, "metadata": {**raw["metadata"], "labels": {"note": text}}} for raw in raws))
        for name in names:
            metadata = pods.get(name)["metadata"]
            assert (metadata["labels"]["note"], metadata["annotations"]["example.com/note"]) == (text, text)

    changed("a")
    assert pods.gated() == set(names)
    publish_all(control_plane.api, [Machine("n0", free=FREE)])
    pods.wait_until_bound(*names)
    changed("b")


def test_a_server_side_apply_of_what_cannot_be_applied_again_is_warned_of_and_then_refused_as_a_conflict(
    known: Callable[..., None], pods: Pods
) -> None:
    known(Machine("n0", free=FREE))
    kubectl, raw = Kubectl(pods, SERVER_SIDE), pod("both", **SPECS["both"])
    assert "cannot be applied again with --server-side once the pod is placed" in kubectl.apply_and_be_warned(raw)
    pods.wait_until_bound("both")
    with pytest.raises(CommandError, match=r"conflict with .*: \.spec\.nodeSelector"):
        kubectl.apply(raw)


def test_a_pod_that_only_the_scheduler_can_place_keeps_its_own_node_affinity_and_says_so(
    known: Callable[..., None], pods: Pods
) -> None:
    known(Machine("n0", free=FREE), Machine("n1", free=FREE, policy="none"))
    kubectl, raw = Kubectl(pods), pod("a", **SPECS["all-affinity"], topologySpreadConstraints=[SPREAD])
    kubectl.apply(raw)
    pods.wait_until_bound("a")
    pods.wait_until_told(
        "a", "DelegatedToScheduler", "for its topology spread constraints and by its own node affinity alone"
    )
    kubectl.unchanged(raw)


def test_a_bare_pods_terms_are_added_to_where_its_node_has_no_hostname_label_of_its_own(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(Machine("n0", free=FREE))
    control_plane.api.patch("/api/v1/nodes/n0", {"metadata": {"labels": {"kubernetes.io/hostname": None}}})
    pods.create(pod("a", **SPECS["required"]))
    pods.wait_until_bound("a")
    spec = pods.get("a")["spec"]
    assert "nodeSelector" not in spec
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    assert spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [{**LINUX, **named}, {**ARCH, **named}]
    }
