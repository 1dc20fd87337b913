"""What the peers document and assert in their tests: clusters, requests, results.

Sources: NVIDIA/KAI-Scheduler `docs/topology`, `docs/developer/designs`, `examples/ray` and the tests of the pod grouper
and of the allocate action; kubernetes-sigs/kueue `keps/2724-topology-aware-scheduling`, the site's pages about topology
aware scheduling and `pkg/cache/scheduler`; koordinator-sh/koordinator, its proposal and its solver for network
topologies.
"""
