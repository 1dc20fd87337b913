"""The service with tens of thousands of nodes, fed by a synthetic API server."""
