"""The address of the API server and our credentials: from a kubeconfig or the pod's service account.

Order: the kubeconfig from the settings; else, unless a context is set, the service account of the pod we run in; else
`$KUBECONFIG`; else `~/.kube/config`. Tokens in files (service accounts, kubeconfig `tokenFile`) are reread when they
are rotated. Exec plugins run again when their credentials have expired.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any, Final

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigLoader, KubeConfigMerger

from webhook.kube.api_errors import ConnectionSettingsError
from webhook.model.json_text import printable
from webhook.model.wording import did_you_mean, quoted

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# The kubelet replaces a token at 80 % of its life, which is at least 10 minutes: a token read a minute ago is valid.
REFRESH_SECONDS: Final = 60.0

Refresh = Callable[[Configuration], Awaitable[None]]


class TokenFile:
    """A bearer token in a file that another program rotates."""

    def __init__(self, path: Path, clock: Callable[[], float] = monotonic) -> None:
        self.path = path
        self._clock = clock
        self._token = ""
        self._read_at = float("-inf")

    def token(self) -> str:
        """The token, at most a minute old; the previous one while the file cannot be read."""
        if self._clock() - self._read_at >= REFRESH_SECONDS:
            try:
                text = self.path.read_text().strip()
            except OSError as error:
                if not self._token:
                    msg = f"Cannot read the token file {self.path}: {error.strerror}."
                    raise ConnectionSettingsError(msg) from error
                text = self._token
            if not text and not self._token:
                msg = f"The token file {self.path} is empty."
                raise ConnectionSettingsError(msg)
            self._token = text or self._token
            self._read_at = self._clock()
        return self._token

    def forget(self) -> None:
        """Reread the file at the next use, because the API server rejected the token."""
        self._read_at = float("-inf")


class Credentials:
    """The client's configuration, kept up to date."""

    def __init__(
        self, configuration: Configuration, source: str, token_file: TokenFile | None = None, namespace: str = ""
    ) -> None:
        """namespace: of the context; empty if it names none."""
        self.configuration = configuration
        self.source = source
        self.namespace = namespace or "default"
        self._token_file = token_file
        if token_file is not None:
            self._apply_token_file(configuration)
            configuration.refresh_api_key_hook = self._apply_token_file

    def forget_token(self) -> None:
        """Get a new token for the next call, because the API server answered 401."""
        if self._token_file is not None:
            self._token_file.forget()

    def _apply_token_file(self, configuration: Configuration) -> None:
        assert self._token_file is not None  # noqa: S101 # only set as hook if there is one
        configuration.api_key["BearerToken"] = f"Bearer {self._token_file.token()}"


async def load_credentials(kubeconfig: Path | None = None, context: str | None = None) -> Credentials:
    """Credentials in the order above; raises ConnectionSettingsError with the sources tried."""
    if kubeconfig is None and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return service_account(SERVICE_ACCOUNT)
    paths = str(kubeconfig) if kubeconfig is not None else str(KUBE_CONFIG_DEFAULT_LOCATION)
    return await from_kubeconfig(paths, context)


def service_account(folder: Path) -> Credentials:
    """The credentials of every pod: token and CA in `folder`, the address in the environment."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    authority = folder / "ca.crt"
    if not authority.is_file():
        msg = (
            f"KUBERNETES_SERVICE_HOST is set, but {authority} does not exist: is automountServiceAccountToken false? "
            "Outside of a cluster, name a kubeconfig."
        )
        raise ConnectionSettingsError(msg)
    configuration = Configuration(host=f"https://{f'[{host}]' if ':' in host else host}:{port}")
    configuration.ssl_ca_cert = str(authority)
    namespace = folder / "namespace"
    own = namespace.read_text().strip() if namespace.is_file() else ""
    return Credentials(configuration, f"service account in {folder}", TokenFile(folder / "token"), own)


def _merged(paths: str) -> KubeConfigMerger | None:
    """The kubeconfig files; None if there are none, of which the client would log a line of its own."""
    found = any(os.path.exists(os.path.expanduser(path)) for path in paths.split(os.pathsep) if path)  # noqa: PTH110, PTH111 # as the client does; Path.expanduser fails without a home
    return KubeConfigMerger(paths) if found else None


async def from_kubeconfig(paths: str, context: str | None) -> Credentials:
    """The credentials of `context` (the current one if None) in kubeconfig files, `:`-separated as for kubectl."""
    configuration = Configuration()
    try:
        merged = _merged(paths)
        if merged is None or merged.config is None:
            msg = f"There is no kubeconfig at {paths}, and this is not a pod in a cluster. Name one."
            raise ConnectionSettingsError(msg)
        contexts = [str(each["name"]) for each in merged.config.safe_get("contexts") or []]
        if context is not None and context not in contexts:
            msg = f"There is no context {quoted(context)} in {paths}.{did_you_mean(context, contexts)}"
            raise ConnectionSettingsError(f"{msg} There are: {', '.join(map(printable, contexts)) or 'none'}.")
        loader = KubeConfigLoader(config_dict=merged.config, active_context=context, config_base_path=None)
        await loader.load_and_set(configuration)
        user = _user_of(merged, loader)
        namespace = str(loader.current_context["context"].get("namespace") or "")
    except (ConfigException, OSError, yaml.YAMLError, TypeError, LookupError, AttributeError, ValueError) as error:
        # The last four: the client's loader does not validate a kubeconfig's structure.
        msg = f"The kubeconfig {paths} cannot be used: {error}."
        raise ConnectionSettingsError(msg) from error
    source = f"kubeconfig {paths}, context {loader.current_context['name']}"
    # As for kubectl, a tokenFile overrides a token, because the file is rotated.
    if user is not None and user.safe_get("tokenFile"):
        token_file = Path(str(user.path)).parent / user.safe_get("tokenFile")
        return Credentials(configuration, source, TokenFile(token_file), namespace)
    credentials = Credentials(configuration, source, namespace=namespace)
    if user is not None and user.safe_get("exec"):
        configuration.refresh_api_key_hook = _exec_refresh(loader)
    return credentials


def _user_of(merged: KubeConfigMerger, loader: KubeConfigLoader) -> Any:
    """The `user` node of the loader's context; None for a context without one."""
    name = loader.current_context["context"].get("user")
    if not name or not merged.config.safe_get("users"):
        return None
    entry = merged.config["users"].get_with_name(name, safe=True)
    return entry["user"] if entry is not None and entry.safe_get("user") else None


def _exec_refresh(loader: KubeConfigLoader) -> Refresh:
    """A hook that runs the exec plugin again, at most once a minute; the loader skips it while its token is valid."""
    ran_at = monotonic()

    async def refresh(configuration: Configuration) -> None:
        nonlocal ran_at
        if monotonic() - ran_at >= REFRESH_SECONDS:
            ran_at = monotonic()
            await loader.load_from_exec_plugin()
            configuration.api_key["BearerToken"] = loader.token

    return refresh
