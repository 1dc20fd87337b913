"""Access to the Kubernetes API: informers, lease, events, writes. Only this package imports the Kubernetes client."""
