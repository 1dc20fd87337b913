"""The proof: workloads on simulated machines, without and with the webhook, counted the same way.

Real API server, real kube-scheduler, real controllers, the kubelet's own admission code (tests/cluster/kubelets.py);
`python -m tests.proof` prints the table.

    scenario.py   what a run is made of: machines, workloads and when they come
    scenarios.py  the six of them, by seed; trace.py: one from a recorded cluster
    run.py        one run on a fresh control plane; observe.py: every pod's history, from a watch
    allocations.py allocations beside what kubelets chose; dra.py: devices of claims beside CPUs, and their scenario
    measure.py    from histories to the row of the table; table.py: rows for people
"""
