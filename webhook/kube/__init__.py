"""The only importer of the Kubernetes client: informers, lease, events, writes."""
