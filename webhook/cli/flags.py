"""Flags that commands share, and one for each setting, made from its field and docstring.

What `--help`, `--version` and a shell's completion need: of this service it imports nothing until settings are shown.
"""

import inspect
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args, get_origin

import typer

from webhook.cli import value_completion

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

EXIT_REFUSED: Final = 1
EXIT_UNREADABLE: Final = 2

# Settings of the service that affect what is free, and those that select the cluster.
CLUSTER_SETTINGS: Final = (
    "kubeconfig",
    "context",
    "manage",
    "manage_missed",
    "excluded_namespaces",
    "scheduler_names",
    "dynamic_resources",
    "nrt_age_seconds",
)
# Settings that affect decisions, and those that select the cluster.
DECISION_SETTINGS: Final = (
    "kubeconfig",
    "context",
    "gate",
    "manage",
    "default_numa_topology_policy",
    "default_exclusive",
    "excluded_namespaces",
    "kueue_annotations",
    "grove_pod_gangs",
    "dynamic_resources",
    "no_compatible_node",
    "not_alignable",
    "unenforced",
    "no_capacity",
    "fidelity",
    "score_strategy",
    "resource_weights",
    "preference_weight",
    "gang_strategy",
    "scheduler_names",
    "max_affinity_values",
    "nrt_age_seconds",
)
ENGINE_SETTINGS: Final = ("fidelity", "gang_strategy", "not_alignable", "unenforced")
"""Those that affect the engine's answers."""
# What they change is the answer for a pod that exists.
AUTOSCALER_SETTINGS: Final = (
    "autoscaler",
    "provisioning_class",
    "node_group_labels",
    "new_node_seconds",
    "narrow_after_seconds",
)


class Action(StrEnum):
    """What to do with Topologies."""

    DISCOVER = "discover"


class Output(StrEnum):
    """The output format."""

    TABLE = "table"
    YAML = "yaml"
    JSON = "json"


Snapshots = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster",
        metavar="SNAPSHOT",
        help="The cluster as kubectl get -A -o yaml (or json) prints its nodes, namespaces, pods, "
        "noderesourcetopologies.topology.node.k8s.io, topologies.kai.scheduler, topologies.kueue.x-k8s.io, "
        "podgroups.scheduling.k8s.io, podgroups.scheduling.run.ai, and, for devices, deviceclasses, devicetaintrules, "
        "resourceslices, resourceclaimtemplates and resourceclaims of resource.k8s.io: "
        "a file, directory, or - for stdin. May be repeated. "
        "Without it, the live cluster of --kubeconfig and --context, or of kubectl's current context.",
    ),
]
Configurations = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration file of the service, a TopologyWebhookConfiguration. Flags win over it.",
    ),
]
Outputs = Annotated[Output, typer.Option("--output", "-o", help="A table for people, yaml and json for programs.")]
_FILES: Final = typer.Option(
    "--filename",
    "-f",
    metavar="FILE",
    help="Objects to review: a YAML or JSON file, a directory of them, or - for stdin. May be repeated.",
)
Files = Annotated[list[str], _FILES]
OptionalFiles = Annotated[list[str] | None, _FILES]
Resources = Annotated[
    str | None,
    typer.Option(
        "--resource",
        metavar="NAME,…",
        help="Resources to show, as in pods' requests. Without it, cpu, memory and the most common devices.",
        autocompletion=value_completion.resources,
    ),
]


def setting_flags(names: Iterable[str] | None) -> list[inspect.Parameter]:
    """A parameter for each of these settings; None: for all.

    All are text options. The settings validate them, so flags and environment variables have the same error
    messages.
    """
    from webhook.app.settings import Settings, flag  # noqa: PLC0415 # most of the time that `--help` would take

    return [
        _parameter(name, flag(name), Settings.model_fields[name])
        for name in (Settings.model_fields if names is None else names)
    ]


def _parameter(name: str, flag: str, field: "FieldInfo") -> inspect.Parameter:
    complete = value_completion.contexts if name == "context" else None
    option = typer.Option(flag, help=_help(field), metavar=_metavar(field), show_default=False, autocompletion=complete)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=Annotated[str | None, option])


def _help(field: "FieldInfo") -> str:
    text = " ".join((field.description or "").split())
    default = _default(field)
    return f"{text} [default: {default}]" if default else text


def _metavar(field: "FieldInfo") -> str:
    kind = field.annotation
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    if kind in {int, float}:
        return "NUMBER"
    names: dict[Any, str] = {dict: "RESOURCE=WEIGHT,…", tuple: "NAME,…"}
    return names.get(get_origin(kind), "TEXT")


def _default(field: "FieldInfo") -> str:
    default = field.get_default(call_default_factory=True)
    if isinstance(default, tuple):
        return ",".join(default)
    if isinstance(default, float):
        return f"{default:g}"
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return "" if default is None or default == {} else text
