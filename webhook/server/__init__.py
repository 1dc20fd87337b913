"""HTTPS for the API server, HTTP for probes and metrics."""
