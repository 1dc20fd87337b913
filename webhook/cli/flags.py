"""Command-line flags that commands share: one for each setting, made from its field and docstring, and `--resource`."""

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from webhook.app.settings import Settings, flag
from webhook.cli.input.documents import InputError
from webhook.model.wording import did_you_mean, quoted
from webhook.state.cluster_cache import ClusterCache
from webhook.views.node_amounts import offered_resources, usual_resources

Resources = Annotated[
    str | None,
    typer.Option(
        "--resource",
        metavar="NAME,…",
        help="Resources to show, as in pods' requests. Without it, cpu, memory and the most common devices.",
    ),
]


def resources_of(text: str | None, cache: ClusterCache) -> tuple[str, ...]:
    """The resources to show that `--resource` names, each of which some node offers. Raises InputError."""
    snapshot = cache.snapshot().nodes
    if text is None:
        return usual_resources(snapshot)
    offered = offered_resources(snapshot)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError(f"--resource: {quoted(text)} names no resource. Nodes offer: {', '.join(offered)}.")
    for name in names:
        if name not in offered:
            raise InputError(
                f"--resource: no node offers {quoted(name)}. Nodes offer: {', '.join(offered)}."
                f"{did_you_mean(name, offered)}"
            )
    return names


def with_setting_flags(function: Callable[..., None], fields: Iterable[str]) -> None:
    """Give the command a flag for each setting, in place of its `**flags`.

    All are text options. The settings validate them, so flags and environment variables have the same error
    messages.
    """
    own = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    signature = inspect.Signature([*own, *(_parameter(name, Settings.model_fields[name]) for name in fields)])
    function.__signature__ = signature  # type: ignore[attr-defined] # what inspect.signature looks for first
    function.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    option = typer.Option(flag(name), help=_help(field), metavar=_metavar(field), show_default=False)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=Annotated[str | None, option])


def _help(field: FieldInfo) -> str:
    text = " ".join((field.description or "").split())
    default = _default(field)
    return f"{text} [default: {default}]" if default else text


def _metavar(field: FieldInfo) -> str:
    kind = field.annotation
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    if kind in {int, float}:
        return "NUMBER"
    names: dict[Any, str] = {dict: "RESOURCE=WEIGHT,…", tuple: "NAME,…"}
    return names.get(get_origin(kind), "TEXT")


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    if isinstance(default, tuple):
        return ",".join(default)
    if isinstance(default, float):
        return f"{default:g}"
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return "" if default is None or default == {} else text
