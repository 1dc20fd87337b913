"""The configuration file of the service, read as Kubernetes reads YAML: a key that stands twice is an error."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webhook.app.settings import SettingsError
from webhook.cli.input.yaml_text import YAMLFault, load_all


def configuration(path: str | None) -> Mapping[str, Any] | None:
    """The content of the file of `--config`; None without one. Raises SettingsError."""
    return None if path is None else read_configuration(path)


def read_configuration(path: str) -> Mapping[str, Any]:
    """The content of the file. Raises SettingsError."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"--config: {path!r} cannot be read: {reason}") from error
    return parse_configuration(text, path)


def parse_configuration(text: str, name: str) -> Mapping[str, Any]:
    """The content of a configuration file. name: of the file, in messages. Raises SettingsError."""
    try:
        documents = [content for _, content in load_all(text)]
    except YAMLFault as fault:
        place = name if fault.line is None else f"{name}, line {fault.line}"
        raise SettingsError(f"{place}: {fault.reason}") from fault
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise SettingsError(f"{name}: one object is expected, a TopologyWebhookConfiguration")
    return documents[0]
