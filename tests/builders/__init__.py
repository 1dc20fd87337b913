"""Builders of test objects: keyword-only functions, a module a kind. A test passes what matters to it and no more.

Objects are written as Kubernetes has them, so that a test reads what the service reads.
"""
