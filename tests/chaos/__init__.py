"""Chaos: pods and gangs come steadily to a real control plane with two replicas, and one thing breaks.

    python -m tests.chaos [--scenario NAME] [--seconds N] [--seed S] [--json]

One row for each scenario. What its columns count:

- `created`: pods that honest tenants, and the controllers of their Jobs, created.
- `clientErrors`: creations that the API server refused although they were right: denied by the webhook, or failed
  because the webhook did not answer. The client tries again; each refusal counts. While the API server or etcd itself
  is down nothing is refused, because no API server answers.
- `lost`: at the end, pods that do not run although no user deleted them: they vanished, or they wait, with a reason or
  without. All that is created fits, so when the cluster has settled everything must run. Here to run is to be bound:
  no kubelet stands behind these nodes.
- `ungated`: pods that asked for a NUMA policy and were bound without a decision of the webhook: without a placement
  text, or, of those that need aligned NUMA nodes, without a hint for their node. This is what failing open costs.
- `overCommitted`: resources of NUMA nodes of which the hints of bound pods ever added up to more than there is. Every
  change of every pod is followed, not the end only.
- `gangsSplit`: gangs whose bound pods were at any moment in more than one domain of the required level, or of which
  fewer than the minimum ever started. A gang with a pod that the API server admitted without asking the webhook is not
  judged: those pods count as `ungated`.
- `waitP99`, `waitMax`: seconds from the creation of honest pods until they were bound.
- `leaderExits`: replica processes that ended and were not ended by the scenario.

    load.py       what honest tenants create
    journal.py    what became of every pod, from a watch
    bed.py        the control plane, the nodes and the two replicas; who exits without being asked
    faults.py     what breaks; hostile.py: a tenant who does his worst
    scenarios.py  the list of them
    run.py        one scenario: load, fault, settle, row
    row.py        the row, and what makes it a failure; table.py: rows for people
"""
