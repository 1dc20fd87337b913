"""Completion of values that the cluster has: nodes, namespaces, topologies, resources, contexts, and KIND/NAME.

1. With `--cluster`, they are those of the snapshot, read as YAML or JSON without judging it.
2. Otherwise kubectl is asked, with the call's `--kubeconfig` and `--context`: it starts faster than this service's own
   client is imported. Without kubectl, or if the cluster does not answer in a moment, there are no candidates.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import typer

# A shell waits for the answer.
_SECONDS: Final = 1
_TOPOLOGIES: Final = "topologies.kai.scheduler,topologies.kueue.x-k8s.io"
# What kubectl calls the kinds that are asked for most; the others are named by the user.
_KINDS: Final = ("pod", "job", "deployment", "statefulset", "replicaset", "podgroup")

Complete = Callable[[typer.Context, str], list[str]]


def nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Names of nodes."""
    return _starting(incomplete, (_name(each) for each in _objects(context, "nodes", "Node")))


def namespaces(context: typer.Context, incomplete: str) -> list[str]:
    """Names of namespaces; of a snapshot also those of its pods."""
    found = [_name(each) for each in _objects(context, "namespaces", "Namespace")]
    if context.params.get("cluster"):
        found += [_metadata(each).get("namespace", "") for each in _objects(context, "pods", "Pod")]
    return _starting(incomplete, found)


def topologies(context: typer.Context, incomplete: str) -> list[str]:
    """Names of Topologies of both kinds."""
    return _starting(incomplete, (_name(each) for each in _objects(context, _TOPOLOGIES, "Topology")))


def resources(context: typer.Context, incomplete: str) -> list[str]:
    """Resources of nodes, behind those that stand before the last comma."""
    before, comma, last = incomplete.rpartition(",")
    offered = {
        name
        for node in _objects(context, "nodes", "Node")
        for name in (node.get("status") or {}).get("allocatable") or {}
        if name != "pods"
    }
    return [f"{before}{comma}{name}" for name in _starting(last, offered)]


def targets(context: typer.Context, incomplete: str) -> list[str]:
    """KIND/ of the usual kinds, then the names of the kind in the namespace."""
    kind, slash, name = incomplete.partition("/")
    if not slash:
        return _starting(kind, (f"{each}/" for each in _KINDS))
    namespace = context.params.get("namespace")
    found = (
        _name(each)
        for each in _objects(context, kind, kind, *(("--namespace", namespace) if namespace else ()))
        if not namespace or _metadata(each).get("namespace", namespace) == namespace
    )
    return [f"{kind}/{each}" for each in _starting(name, found)]


def contexts(context: typer.Context, incomplete: str) -> list[str]:
    """Contexts of the kubeconfig."""
    config = _kubectl(context, "config", "view", "--output=json", named=False)
    return _starting(incomplete, (str(each.get("name", "")) for each in config.get("contexts") or ()))


def _objects(context: typer.Context, kinds: str, kind: str, *arguments: str) -> list[Mapping[str, Any]]:
    """The objects of a kind, in the snapshot by its kind in any case, else as kubectl names it."""
    if files := context.params.get("cluster"):
        from webhook.cli.input.documents import InputError, read  # noqa: PLC0415 # not for the other completions

        try:
            return [item.body for item in read(files) if item.kind.lower() == kind.lower()]
        except InputError:
            return []
    items = _kubectl(context, "get", kinds, "--output=json", f"--request-timeout={_SECONDS}s", *arguments).get("items")
    return items if isinstance(items, list) else []


def _kubectl(context: typer.Context, *arguments: str, named: bool = True) -> Mapping[str, Any]:
    chosen = [("kubeconfig", context.params.get("kubeconfig")), *([("context", context.params.get("context"))] * named)]
    flags = [f"--{name}={value}" for name, value in chosen if value]
    if (kubectl := shutil.which("kubectl")) is None:
        return {}
    try:
        # The program that a shell would run, and words of the user's own command line, none of them a command.
        done = subprocess.run(  # noqa: S603
            [kubectl, *arguments, *flags], capture_output=True, text=True, check=False, timeout=_SECONDS + 1
        )
        found = json.loads(done.stdout) if done.returncode == 0 else {}
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name and name.isprintable() and name.startswith(incomplete)})


def _name(raw: Mapping[str, Any]) -> str:
    return str(_metadata(raw).get("name", ""))


def _metadata(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    found = raw.get("metadata")
    return found if isinstance(found, dict) else {}
