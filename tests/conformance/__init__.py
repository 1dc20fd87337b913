"""Agreement with results of real Kubernetes components: `python -m tests.conformance --cases DIR`."""
