"""`topology-webhook serve`: a flag for every setting, made from the settings' own fields and their docstrings."""

import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from webhook.settings import Settings, SettingsError, flag


def serve(**flags: str | None) -> None:
    """Serve the admission webhooks until SIGTERM.

    Every flag can also be given as an environment variable: --log-level is TOPOLOGY_WEBHOOK_LOG_LEVEL. The flag wins.
    """
    try:
        settings = Settings.load(flags)
    except SettingsError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from error
    from webhook.main import run  # noqa: PLC0415 # the other commands start without client and server

    raise typer.Exit(run(settings))


def _flags_of(settings: type[Settings]) -> inspect.Signature:
    """One text option a field: the settings validate, so that flag and variable are told wrong in the same words."""
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[
                    str | None,
                    typer.Option(flag(name), help=_help(field), metavar=_metavar(field), show_default=False),
                ],
            )
            for name, field in settings.model_fields.items()
        ]
    )


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
    return "" if default is None or default == {} else str(default)


def _with_signature(function: Callable[..., None], signature: inspect.Signature) -> None:
    function.__signature__ = signature  # type: ignore[attr-defined] # what inspect.signature looks for first
    function.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}


_with_signature(serve, _flags_of(Settings))
