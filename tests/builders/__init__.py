"""Builders of test objects: keyword-only functions, one module per kind. A test passes only what matters to it.

Objects have the form of the Kubernetes API, so that tests use what the service reads.
`records` and `gangs` make what the engine reads, in its units.
"""
