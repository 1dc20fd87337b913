"""Log lines of the service's code within a command: stdout belongs to the answer."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def only_errors_to_stderr() -> Iterator[None]:
    """Within it, errors are logged to stderr. What the service would log as a warning, commands print themselves."""
    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)
