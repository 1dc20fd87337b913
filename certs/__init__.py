"""X.509 life cycle of a webhook: CA, leaf, caBundle. Knows nothing of what it secures."""
