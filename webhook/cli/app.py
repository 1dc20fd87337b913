"""The program `topology-webhook`, and the same as `kubectl topology`: its commands as their help shows them.

Here is what can be asked: names, flags, examples. `webhook.cli.commands` has a module for each command, whose function
of the same name and parameters answers; it is imported when it is called. The flags of a command are built when it is
called or its own help is shown. So `--version`, `--help` and the completion of a shell take a tenth of the time.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from webhook.cli import value_completion
from webhook.cli.commands.completion import Shell, candidates, register_shells
from webhook.cli.flags import (
    AUTOSCALER_SETTINGS,
    CLUSTER_SETTINGS,
    DECISION_SETTINGS,
    ENGINE_SETTINGS,
    Action,
    Configurations,
    Files,
    OptionalFiles,
    Output,
    Outputs,
    Resources,
    Snapshots,
    setting_flags,
)
from webhook.version import DISTRIBUTION, VERSION

KUBECTL: Final = "kubectl topology"


class _Declared(NamedTuple):
    """A command. settings: which it has flags for; None: all."""

    function: Callable[..., None]
    settings: tuple[str, ...] | None
    examples: tuple[str, ...]


# In the order of the help.
_COMMANDS: Final[dict[str, _Declared]] = {}
_Function = Callable[..., None]


def _command(*examples: str, settings: Iterable[str] | None = ()) -> Callable[[_Function], _Function]:
    """Declare a command."""

    def declare(function: _Function) -> _Function:
        wanted = None if settings is None else tuple(settings)
        _COMMANDS[function.__name__] = _Declared(function, wanted, examples)
        return function

    return declare


@_command(
    "topology-webhook review -f pod.yaml",
    "topology-webhook review -f manifests/ --cluster cluster.yaml --all-nodes",
    "topology-webhook review -f pod.yaml -o yaml | kubectl apply -f -",
    settings=DECISION_SETTINGS,
)
def review(
    filename: Files,
    cluster: Snapshots = None,
    output: Annotated[
        Output,
        typer.Option("--output", "-o", help="A table for people, yaml for kubectl apply -f -, json for programs."),
    ] = Output.TABLE,
    all_nodes: Annotated[bool, typer.Option("--all-nodes", help="Show every node (table and json).")] = False,
    config: Configurations = None,
) -> None:
    """Show the decision on pods and workloads before you apply them.

    A workload is reviewed by its pod templates, or as a gang if it requests a topology or a minimum. Each object is
    reviewed on its own, so the objects of one call take no room from each other. A Topology or Namespace among them
    applies to the objects after it, as if they were created in this order, and a PodGroup to all pods that name it.
    With -o yaml, objects are printed as they will be once they are ungated, and denied objects are left out.

    The exit code is 0 if all objects are allowed, 1 if one is denied or fits nowhere now, and 2 if the input cannot
    be read or the answer cannot be written.
    """


@_command(
    "topology-webhook explain pod/train-0",
    "topology-webhook explain job/train -n research",
    "topology-webhook explain podgroup/train --cluster cluster.yaml -o json",
    "topology-webhook explain -f gang.yaml --cluster cluster.yaml",
    settings=(*DECISION_SETTINGS, *AUTOSCALER_SETTINGS),
)
def explain(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND/NAME",
            help="An object of the cluster: pod/train-0, job/train, podgroup/train.",
            autocompletion=value_completion.targets,
        ),
    ] = None,
    filename: OptionalFiles = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Namespace of KIND/NAME. Without it, that of the context, or default.",
            autocompletion=value_completion.namespaces,
        ),
    ] = None,
    cluster: Snapshots = None,
    output: Outputs = Output.TABLE,
    config: Configurations = None,
) -> None:
    """Show where a pod or the pods of a workload stand, and why.

    For a pod, that is the decision, its node and NUMA nodes beside what the NodeResourceTopology shows, and, while
    it waits, each node's answer. For a workload or PodGroup, it is the pods by rank, and how far apart neighbours
    are. With -f, you see what review leaves out: for every node why it fits a pod or not, and for a gang where it is
    placed or what is missing.

    The exit code is 0 if all pods have a node or fit now, 1 if one fits nowhere now or an object of a file is
    denied, and 2 if the input cannot be read, the object does not exist, or the answer cannot be written.
    """


@_command(
    "topology-webhook tree",
    "topology-webhook tree --topology network --depth rack --resource cpu,nvidia.com/gpu",
    "topology-webhook tree --cluster cluster.yaml -o json",
    settings=CLUSTER_SETTINGS,
)
def tree(
    cluster: Snapshots = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            metavar="NAME",
            help="Only this Topology. Without it, all of them.",
            autocompletion=value_completion.topologies,
        ),
    ] = None,
    depth: Annotated[
        str | None,
        typer.Option(
            "--depth",
            metavar="LEVEL",
            help="The finest level to show: a level of the topology (label, alias, or last segment), `node`, or a "
            "number; 0 is the whole cluster. Without it, the finest level with at most 100 domains.",
        ),
    ] = None,
    resource: Resources = None,
    output: Outputs = Output.TABLE,
) -> None:
    """Show what is free in each rack, zone or other domain.

    FREE is what pods can still request on nodes that are ready and not cordoned, out of what is allocatable on all
    nodes; LARGEST is the most that a single NUMA node has free. GANGS lists the gangs with members in the domain.

    The exit code is 0, or 2 if the input cannot be read or the answer cannot be written.
    """


@_command(
    "topology-webhook doctor",
    "topology-webhook doctor --namespace placement --name tw-topology-webhook",
    "topology-webhook doctor --trial-namespace training -o json",
    settings=("namespace", "kubeconfig", "context"),
)
def doctor(
    name: Annotated[
        str,
        typer.Option(
            "--name", metavar="NAME", help="Full name of the release, with which the names of its objects begin."
        ),
    ] = "topology-webhook",
    trial_namespace: Annotated[
        str,
        typer.Option(
            "--trial-namespace",
            metavar="NS",
            help="A namespace that the webhooks cover, in which pods are created as dry runs.",
            autocompletion=value_completion.namespaces,
        ),
    ] = "default",
    output: Outputs = Output.TABLE,
) -> None:
    """Check an installation, and say what to fix.

    The checks are about versions, CRDs, replicas, leader, rights, webhooks, exporters, policies and gated pods. Two
    dry runs show whether a pod with an annotation is admitted with a decision, and one with a typo in it is denied.
    The command changes nothing. Each line says ok, warn or fail, and what to do about it.

    The exit code is 0 if no check failed (there may be warnings), 1 if one did, and 2 if the flags are invalid or
    the API server cannot be reached.
    """


@_command(
    "topology-webhook audit",
    "topology-webhook audit --cluster cluster.yaml -o json",
    settings=CLUSTER_SETTINGS,
)
def audit(cluster: Snapshots = None, output: Outputs = Output.TABLE) -> None:
    """Show what is wrong in the cluster, and what to do about it.

    Audit finds pods that kubelets rejected, pods that span NUMA nodes although one could hold them, gangs over
    several racks that one rack could have taken, and nodes without a NodeResourceTopology or with two policies. It
    also counts the pods that each value of `manage` would cover. It needs no installed service, and changes nothing.

    The exit code is 0, or 2 if the input cannot be read or the answer cannot be written.
    """


@_command(
    "topology-webhook page",
    "topology-webhook page --context training --port 8000",
    "topology-webhook page --cluster cluster.yaml",
    settings=dict.fromkeys((*CLUSTER_SETTINGS, *DECISION_SETTINGS)),
)
def page(
    cluster: Snapshots = None,
    address: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on. 0 picks a free one.")] = 8090,
) -> None:
    """Show the cluster's topology in a browser.

    The page is a map of what is used where, with gangs, what waits and why, and where a pod or gang would fit. It
    reads the cluster with the rights of the kubeconfig's user, changes nothing, and follows the cluster until Ctrl-C.
    With --cluster, it shows a snapshot.

    The exit code is 0 if a signal ended it, and 2 if the flags or files are invalid, the API server cannot be
    reached, or the port cannot be opened.
    """


@_command(
    "topology-webhook nodes",
    "topology-webhook nodes worker-7",
    "topology-webhook nodes --resource cpu,nvidia.com/gpu -o json",
    settings=CLUSTER_SETTINGS,
)
def nodes(
    node: Annotated[
        str | None,
        typer.Argument(
            metavar="[NODE]",
            help="Only this node, with its pods and reservations.",
            autocompletion=value_completion.nodes,
        ),
    ] = None,
    cluster: Snapshots = None,
    resource: Resources = None,
    output: Outputs = Output.TABLE,
) -> None:
    """Show what is free on each NUMA node, or all about one node.

    You also see the kubelet's policy and the age of the NodeResourceTopology. With NODE, show all resources of that
    node, its NUMA nodes side by side, its pods with their NUMA nodes, and what is reserved for pods that its
    exporter does not report yet.

    The exit code is 0, or 2 if the input cannot be read, the node does not exist, or the answer cannot be written.
    """


@_command(
    "topology-webhook waiting",
    "topology-webhook waiting --watch",
    "topology-webhook waiting --what-frees 50",
    "topology-webhook waiting --cluster cluster.yaml -o json",
    settings=(*CLUSTER_SETTINGS, *ENGINE_SETTINGS),
)
def waiting(
    cluster: Snapshots = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Print the list again whenever it changes, until Ctrl-C.")
    ] = False,
    what_frees: Annotated[
        int,
        typer.Option(
            "--what-frees",
            min=0,
            metavar="NUMBER",
            help="For how many entries, from the first, to find what would let them run.",
        ),
    ] = 5,
    output: Outputs = Output.TABLE,
) -> None:
    """Show which pods and gangs have no node yet, and why.

    These are the managed pods that are not bound, the oldest first, with what has to act next. A gang is one line
    with its number of members. The reason is what the service wrote into the oldest pod, or, for a pod without a
    gate, what the scheduler reports. For the first entries, you also see which pods would have to terminate to let
    them run, except with --watch, with which -o json prints one value a line.

    The exit code is 0, even if nothing waits, or 2 if the input cannot be read or the answer cannot be written.
    """


@_command(
    "topology-webhook defrag",
    "topology-webhook defrag --first 1 --apply",
    "topology-webhook defrag --cluster cluster.yaml -o json",
    settings=(*CLUSTER_SETTINGS, *ENGINE_SETTINGS),
)
def defrag(
    cluster: Snapshots = None,
    first: Annotated[
        int,
        typer.Option(
            "--first",
            min=1,
            max=10_000,
            metavar="NUMBER",
            help="How many of the waiting pods and gangs to plan for, in order.",
        ),
    ] = 10,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply", help="Evict the pods of the plan, all or none. Needs the right to create pods/eviction."
        ),
    ] = False,
    output: Outputs = Output.TABLE,
) -> None:
    """Plan the fewest moves of pods that let waiting ones start.

    Plans are made for waiting pods and gangs in the leader's order. A pod moves by being evicted, after which its
    controller creates the next one. Only pods of ReplicaSets, StatefulSets and ReplicationControllers move, and only
    if they are in no gang, have no higher priority than what waits, and can all run elsewhere. PodDisruptionBudgets
    are respected. Nothing is evicted without --apply.

    The exit code is 0 if everything that was planned for fits now or with the moves, 1 if something does not, and 2
    if the input cannot be read, the answer cannot be written, or a pod cannot be evicted.
    """


@_command(
    "topology-webhook topology discover",
    "topology-webhook topology discover --cluster cluster.yaml",
    "topology-webhook topology discover --label example.com/room --label example.com/rack -o yaml | kubectl apply -f -",
    settings=CLUSTER_SETTINGS,
)
def topology(
    action: Annotated[Action, typer.Argument(help="Propose a Topology from the labels that the nodes have.")],
    cluster: Snapshots = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="LABEL",
            help="A node label to use as a level, in place of the known ones of a network. May be repeated, coarse "
            "first.",
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the Topology.")] = "cluster",
    output: Outputs = Output.TABLE,
) -> None:
    """Propose a Topology from the labels of the nodes.

    The labels are those of Kubernetes (region, zone), topograph, AWS, Google Cloud and the GPU operator, and labels
    such as example.com/rack. Warnings name nodes without a label, names that are used again, and labels that do not
    nest. With -o yaml, the object to apply is printed, and the warnings go to stderr.

    The exit code is 0, 1 if no label says where the nodes are, or 2 if the input cannot be read or the answer cannot
    be written.
    """


@_command(
    "topology-webhook simulate -f workload.yaml",
    "topology-webhook simulate -f gang.yaml --cluster cluster.yaml --plot before-after.svg",
    "topology-webhook simulate --trace nodes.csv,pods.csv -o json",
    settings=(*DECISION_SETTINGS, "reserve_after_seconds"),
)
def simulate(  # noqa: PLR0913, PLR0917 # a parameter for each flag
    filename: Annotated[
        list[str] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Objects to create, in this order: a YAML or JSON file, a directory of them, or - for stdin. "
            "May be repeated.",
        ),
    ] = None,
    cluster: Snapshots = None,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="NODES.csv,PODS.csv",
            help="A recorded cluster in the columns of cluster-trace-gpu-v2023, in place of --cluster. "
            "With ,PODS.csv, only its pods are used, on the cluster of --cluster or the live one.",
        ),
    ] = None,
    trace_speed: Annotated[
        float,
        typer.Option(
            "--trace-speed",
            min=0.001,
            max=1e9,
            help="How many times as fast to create the pods of the trace, which run as long as recorded.",
        ),
    ] = 1.0,
    without: Annotated[bool, typer.Option("--without", help="Skip the run with the webhook.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw utilisation and the pods that do not run yet over time: FILE.svg or FILE.png. "
            "Needs the extra `plot`: pip install 'topology-webhook[plot]'.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", min=1, max=1e10, help="How long to simulate. Without it, 60 s after the last creation."
        ),
    ] = None,
    steady_from: Annotated[
        float, typer.Option("--steady-from", min=0, max=1e10, help="Measure utilisation from this second on.")
    ] = 0.0,
    recreations: Annotated[
        int,
        typer.Option(
            "--recreations",
            min=1,
            max=1000,
            help="How often in a row a rejected pod is recreated while nothing else changes.",
        ),
    ] = 10,
    recreate_seconds: Annotated[
        float,
        typer.Option("--recreate-seconds", min=0.01, max=3600, help="Seconds until a rejected pod is recreated."),
    ] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the scheduler's choice among equal nodes.")] = 0,
    output: Outputs = Output.TABLE,
) -> None:
    """Simulate a workload without and with the webhook.

    Without the webhook, the scheduler knows only the totals of nodes, and kubelets reject what they cannot align;
    with it, the service's own engine decides. Nothing is created, and the cluster is not changed.

    An object is created at once and its pods run to the end, unless its annotations simulate.topology-webhook.dev/at
    and simulate.topology-webhook.dev/run-seconds say otherwise.

    The exit code is 0, or 2 if the input cannot be read or the answer cannot be written.
    """


@_command(
    "topology-webhook serve",
    "topology-webhook serve --config configuration.yaml",
    "topology-webhook serve --kubeconfig kubeconfig --port 9443 --log-level debug",
    settings=None,
)
def serve(config: Configurations = None) -> None:
    """Serve the admission webhooks until SIGTERM.

    Settings stand in the file of --config, and each has a flag that wins over it. The variables
    TOPOLOGY_WEBHOOK_NAMESPACE and TOPOLOGY_WEBHOOK_POD_NAME win over the file, too.
    """


@_command(
    "topology-webhook ungate --all --dry-run",
    "topology-webhook ungate --namespace training",
    "topology-webhook ungate --all --remove-webhooks topology-webhook",
    settings=("kubeconfig", "context"),
)
def ungate(
    all_pods: Annotated[
        bool, typer.Option("--all", help="Ungate every waiting pod, in all namespaces unless --namespace is given.")
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NS",
            help="Ungate the waiting pods of this namespace.",
            autocompletion=value_completion.namespaces,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the pods and change nothing.")] = False,
    remove_webhooks: Annotated[
        str | None,
        typer.Option(
            "--remove-webhooks",
            metavar="NAME",
            help="First delete the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration of this name, "
            "the full name of the release, so that no new pod is gated. Then run until no gated pod is left.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, max=86_400, help="How long to try.")
    ] = 60.0,
) -> None:
    """Remove the service's scheduling gate from waiting pods.

    The scheduler then places them without the service. The annotation topology-webhook.dev/placement of each pod
    then says so, and other gates stay. A pod that changes meanwhile or cannot be written is tried again. The service
    may gate new pods meanwhile, unless --remove-webhooks is given.

    The exit code is 0 if no such pod is left, 1 if some are, which stderr names, and 2 if the flags are invalid, or
    the API server cannot be reached or forbids it.
    """


@_command(
    "topology-webhook completion bash > /etc/bash_completion.d/topology-webhook",
    "topology-webhook completion zsh > ~/.zfunc/_topology-webhook",
    "topology-webhook completion fish > ~/.config/fish/completions/topology-webhook.fish",
    "topology-webhook completion kubectl > ~/.local/bin/kubectl_complete-topology",
)
def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(help="The shell, or kubectl for kubectl topology in every shell.")],
) -> None:
    """Print the script that completes commands and flags in a shell.

    kubectl completes its plugins itself, with the executable file kubectl_complete-topology in a folder of $PATH.
    pip and uv install that file; otherwise, write what `completion kubectl` prints into it.

    The exit code is 0, or 2 if kubectl topology is asked for another script than kubectl's.
    """


# Where an example calls the program: at the start of its line, or after a pipe.
_CALL: Final = re.compile(rf"^(|.*\| ){DISTRIBUTION} ")


class _Unbuilt(TyperCommand):
    """A command in the list of the help. It is built to be called."""

    def __init__(self, name: str, program: str) -> None:
        self._declared = _COMMANDS[name]
        examples = "\n".join(_CALL.sub(rf"  \1{program} ", f"{example}") for example in self._declared.examples)
        help_text = inspect.getdoc(self._declared.function) or ""
        super().__init__(
            name, help=help_text, short_help=help_text.partition("\n")[0], epilog=f"\b\nExamples:\n{examples}\n"
        )

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        """The context of the built command."""
        try:
            return self._built().make_context(*arguments, **extra)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's, which parses for Typer
            raise

    def _built(self) -> Any:
        name, declared = self._declared.function.__name__, self._declared

        def call(**arguments: Any) -> None:
            getattr(import_module(f"webhook.cli.commands.{name}"), name)(**arguments)

        parameters = [*inspect.signature(declared.function).parameters.values(), *setting_flags(declared.settings)]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # inspect looks there first
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        info = CommandInfo(name, callback=call, help=self.help, epilog=self.epilog)
        return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)


class _Group(TyperGroup):
    """All commands; their examples call the program of this name."""

    def __init__(self, *, name: str, **attributes: Any) -> None:
        super().__init__(name=name, **{**attributes, "commands": {each: _Unbuilt(each, name) for each in _COMMANDS}})


def command_line(program: str) -> typer.Typer:
    """All commands; their examples call this program."""
    line = typer.Typer(
        name=program,
        cls=_Group,
        help="NUMA- and rack-correct placement of pods on an unmodified kube-scheduler.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # its boxes truncate flags longer than a quarter of the terminal
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    line.callback()(_options)
    return line


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{DISTRIBUTION} {VERSION}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    del version  # handled by the callback


app = command_line(DISTRIBUTION)


def main() -> None:
    """Run the command line, or answer the script of a shell."""
    register_shells()
    app()


def kubectl_main() -> None:
    """Run it as kubectl's plugin: kubectl finds `kubectl-topology` on PATH."""
    if sys.argv[1:2] == ["__complete"]:
        complete(sys.argv[2:])
    else:
        command_line(KUBECTL)(prog_name=KUBECTL)


def kubectl_complete_main() -> None:
    """Answer kubectl when it completes `kubectl topology`: it finds `kubectl_complete-topology` on PATH."""
    complete(sys.argv[1:])


def complete(words: list[str]) -> None:
    """Print candidates for the last of these words."""
    sys.stdout.write(candidates(app, words))
