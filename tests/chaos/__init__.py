"""Chaos: a steady load of pods and gangs on a real control plane with two replicas, while one thing breaks.

    python -m tests.chaos [--scenario NAME] [--seconds N] [--seed S] [--json]

One row for each scenario. Its columns count:

- `created`: pods that honest tenants, and the controllers of their Jobs, created.
- `clientErrors`: valid creations that failed: the webhook denied them, or they failed because it did not answer. The
  client retries; each failure counts. While the API server or etcd is down nothing counts.
- `lost`: pods that do not run in the end although no user deleted them: they vanished or still wait. All created pods
  fit, so once the cluster has settled all must run. Where no kubelet says so, a bound pod counts as running.
- `ungated`: pods that asked for a NUMA policy and were bound without a decision of the webhook: without a placement
  text or, if they need aligned NUMA nodes, without an allocation for their node. This is the cost of failing open.
- `rejected`: pods that a kubelet rejected.
- `overCommitted`: resources of NUMA nodes of which bound pods were ever allocated more than the capacity.
Every
  change of every pod is followed. Also devices that two claims had at the same time, unless one was
  taken back before its pod ran.
- `gangsSplit`: gangs that ever had bound pods in several domains of the required level, or that started with fewer pods
  than their minimum. Gangs with a pod that was admitted without the webhook do not count; that pod is `ungated`.
- `waitP99`, `waitMax`: seconds from the creation of honest pods until they were bound.
- `leaderExits`: replica processes that exited for another reason than the scenario.
- `claimsLeft`: ResourceClaims that still have devices in the end although no pod uses them.

    load.py       what honest tenants create
    journal.py    the history of every pod, from a watch
    bed.py        control plane, nodes and the two replicas; counts replicas that exit
    real_bed.py   the same with real kubelets and exporters
    faults.py     what breaks; kubelet_faults.py: kubelets and their machines; hostile.py: a hostile tenant
    scenarios.py  the list of scenarios
    run.py        one scenario: load, fault, settle, row
    row.py        the row, and its failures; table.py: rows as text
"""
