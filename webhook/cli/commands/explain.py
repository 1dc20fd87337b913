"""`topology-webhook explain`: the complete reasons, for an object of the cluster or for objects in files.

For files it is `review` for people with nothing left out: for a gang each level's capacity, for a pod each node's
answer.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import typer

from webhook.app.rules_of_settings import asking_of, rules_of
from webhook.app.settings import Settings, flag
from webhook.cli.command import Output, Outputs, Snapshots, answering, warn, write
from webhook.cli.commands.review import DECISION_SETTINGS, EXIT_REFUSED, OptionalFiles, review
from webhook.cli.input.documents import InputError
from webhook.cli.input.object_reader import read_object
from webhook.cli.input.object_reference import POD, ObjectReference, object_reference
from webhook.cli.offline.explanation import Explanation, pod_object, workload_object
from webhook.cli.render.explanation_tables import print_pod, print_workload
from webhook.cli.setting_flags import with_setting_flags
from webhook.placing.pod.decision import Verdict
from webhook.views.pod_standing import WITHOUT_NODE, Standing

# What they change is the answer for a pod that exists.
_AUTOSCALER_SETTINGS: Final = (
    "autoscaler",
    "provisioning_class",
    "node_group_labels",
    "new_node_seconds",
    "narrow_after_seconds",
)
EXAMPLES: Final = """\b
Examples:
  topology-webhook explain pod/train-0
  topology-webhook explain job/train -n research
  topology-webhook explain podgroup/train --cluster cluster.yaml -o json
  topology-webhook explain -f gang.yaml --cluster cluster.yaml
"""


def explain(
    target: Annotated[
        str | None,
        typer.Argument(metavar="KIND/NAME", help="An object of the cluster: pod/train-0, job/train, podgroup/train."),
    ] = None,
    filename: OptionalFiles = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Namespace of KIND/NAME. Without it, that of the context, or default."),
    ] = None,
    cluster: Snapshots = None,
    output: Outputs = Output.TABLE,
    **flags: str | None,
) -> None:
    """Show where a pod or the pods of a workload stand, and why.

    For a pod, that is the decision, its node and NUMA nodes beside what the NodeResourceTopology shows, and, while
    it waits, each node's answer. For a workload or PodGroup, it is the pods by rank, and how far apart neighbours
    are. With -f, you see what review leaves out: for every node why it fits a pod or not, and for a gang where it is
    placed or what is missing.

    The exit code is 0 if all pods have a node or fit now, 1 if one fits nowhere now or an object of a file is
    denied, and 2 if the input cannot be read, the object does not exist, or the answer cannot be written.
    """
    with answering():
        if (target is None) == (not filename):
            raise InputError("give either KIND/NAME, such as pod/train-0, or files with -f")
        if target is None:
            if namespace is not None:
                raise InputError("--namespace: objects in files name their own namespace")
            if given := [flag(name) for name in _AUTOSCALER_SETTINGS if flags.get(name) is not None]:
                raise InputError(f"{given[0]}: an autoscaler is asked for pods that exist, so give KIND/NAME")
            review(filename or [], cluster, output, all_nodes=True, **flags)
            return
        all_fit = _explain(object_reference(target), namespace, cluster or [], output, flags)
    if not all_fit:
        raise typer.Exit(EXIT_REFUSED)


with_setting_flags(explain, (*DECISION_SETTINGS, *_AUTOSCALER_SETTINGS))


def _explain(
    reference: ObjectReference,
    namespace: str | None,
    snapshots: list[str],
    output: Output,
    flags: Mapping[str, str | None],
) -> bool:
    """Print the object; returns whether all its pods have a node or fit now."""
    settings = Settings.load(flags)
    found = read_object(reference, namespace, snapshots, settings, flags)
    warn(found.cluster)
    explanation = Explanation(found, rules_of(settings), asking_of(settings))
    if (reference.group, reference.kind) == POD:
        (pod,) = explanation.pods
        open_states = {*WITHOUT_NODE, Standing.ASSIGNED}
        answer = explanation.answer(pod) if pod.state in open_states and not pod.unmanaged else None
        write(output, pod_object(pod, answer), lambda console: print_pod(pod, answer, console))
        return answer is None or pod.state is Standing.ASSIGNED or answer.verdict is Verdict.ALLOW
    answers = list(explanation.answers())
    write(
        output,
        workload_object(explanation, answers),
        lambda console: print_workload(explanation, answers, console),
    )
    return all(answer.verdict is Verdict.ALLOW for _, answer in answers)
