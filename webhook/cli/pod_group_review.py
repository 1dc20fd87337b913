"""The service's answer to a PodGroup in a file, KAI-Scheduler's or Kubernetes' own: that to the pods which name it.

The service denies no PodGroup. If one has a fault, its pods wait, and the PodGroup's warnings name the field.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from webhook.admission.pod.decision import Verdict
from webhook.cache.management import DEFAULT_NAMESPACE
from webhook.cli.documents import Item
from webhook.cli.judgement import Judgement, worst
from webhook.cli.object_reference import NATIVE_POD_GROUP, POD_GROUP
from webhook.cli.pod_group_fields import unread_fields, unread_version
from webhook.model.kai_pod_group import KAIPodGroup
from webhook.model.membership import named_group, native_group
from webhook.model.native_pod_group import NativePodGroup

POD_GROUPS: Final = frozenset({POD_GROUP, NATIVE_POD_GROUP})


def judge_pod_group(item: Item, members: Mapping[str, Iterable[Judgement]]) -> Judgement:
    """The judgement of a PodGroup. members: those of the pods of the call, by gang."""
    if (item.group, item.kind) == POD_GROUP:
        kai = KAIPodGroup.from_object(item.body)
        gang, problems, warnings = (
            named_group(item.namespace or DEFAULT_NAMESPACE, kai.name),
            kai.problems,
            kai.warnings,
        )
    else:
        native = NativePodGroup.from_object(item.body)
        gang = native_group(item.namespace or DEFAULT_NAMESPACE, native.name)
        problems, warnings = native.problems, native.ignored
    kind = item.group, item.kind
    warnings += unread_version(kind, item.api_version) + unread_fields(kind, item.body.get("spec"))
    why = "it is read with the pods that name it"
    if problems:
        why = "pods of it that are managed here wait for its correction"
    alone = Judgement(item, Verdict.ALLOW, f"unmanaged: {why}", item.body, (*problems, *warnings))
    found = list(members.get(gang, ()))
    if not found:
        return alone
    verdict = worst(one.verdict for one in found)
    first = next(one for one in found if one.verdict is verdict)
    return replace(alone, verdict=verdict, message=first.message, group=first.group)


def by_gang(pods: Iterable[Judgement]) -> dict[str, list[Judgement]]:
    """The judgements of pods by their gang."""
    found: dict[str, list[Judgement]] = {}
    for judgement in pods:
        gated = judgement.sets[0].outcome.gated if judgement.sets else None
        if gated is not None and gated.membership is not None:
            found.setdefault(gated.membership.group, []).append(judgement)
    return found
