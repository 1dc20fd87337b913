"""The only importer of the Kubernetes client: informers, events, writes."""
