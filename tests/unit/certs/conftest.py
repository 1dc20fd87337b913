from datetime import UTC, datetime

import pytest

from certs import Authority, Leaf, ServerNames

NOW = datetime(2030, 1, 15, 12, tzinfo=UTC)


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority.create("topology-webhook", NOW)


@pytest.fixture(scope="session")
def names() -> ServerNames:
    return ServerNames.of_service("topology-webhook", "placement", extra=("10.0.0.7", "webhook.example.org"))


@pytest.fixture(scope="session")
def leaf(authority: Authority, names: ServerNames) -> Leaf:
    return authority.issue(names, NOW)
