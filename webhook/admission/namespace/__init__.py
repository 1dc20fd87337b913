"""The webhook on namespaces."""
