"""The judgements of all objects of one call."""

from collections.abc import Sequence

from webhook.admission.world import World
from webhook.cli.documents import Item
from webhook.cli.judgement import Judgement
from webhook.cli.pods import judge_pods
from webhook.cli.shape import METADATA
from webhook.cli.surroundings import Surroundings
from webhook.cli.workload import judge_workload


def judge_all(items: Sequence[Item], worlds: Sequence[World], around: Surroundings) -> list[Judgement]:
    """In the order of the objects. worlds: the cluster as each of them finds it. Raises InputError."""
    for item in items:
        item.check(item.body["metadata"], METADATA, "metadata")
    found = {
        position: judge_workload(item, worlds[position], around)
        for position, item in enumerate(items)
        if not _is_pod(item)
    }
    pods = {position: (item, worlds[position]) for position, item in enumerate(items) if _is_pod(item)}
    found |= judge_pods(pods, around)
    return [found[position] for position in range(len(items))]


def _is_pod(item: Item) -> bool:
    return (item.group, item.kind) == ("", "Pod")
