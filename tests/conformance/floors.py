"""The floors: the share of agreement that each check must reach. One table for all.

What a kubelet does is predicted as at a binding: from the NRT, and the pods that live on the node in their order. Of
memory over several NUMA nodes and of pods that share devices or cores these hide state, mostly when pods have left
since; a pod whose fate hangs on that is admitted. So:
- where nothing is hidden, single-numa-node and none agree fully, whatever the pods;
- no pod that a kubelet admits is refused, under any policy;
- pods admitted wrongly are few, and each is one that the replay with the whole state refuses for that reason.
"""

from fractions import Fraction
from typing import Final

ALL: Final = Fraction(1)

FLOORS: Final = {
    "plugin": ALL,
    "merge": ALL,
    "quantities": ALL,
    "fingerprint": ALL,
    "kubelet single-numa-node": ALL,
    "kubelet none": ALL,
    "kubelet restricted": ALL,
    "kubelet best-effort": ALL,
    "kubelet admitted pods not refused": ALL,
    # Fewer than 1.5 % of the pods may be admitted wrongly, under each policy and in all.
    "kubelet not admitted wrongly": 1 - Fraction(15, 1000),
    # A refusal of restricted may be replayed at the hint where in truth the allocation fails, or the reverse: one in a
    # hundred where machines are of the oddest.
    "kubelet reason of refusals": Fraction(97, 100),
    # Which NUMA nodes exactly hangs on hidden state more often than whether there are some.
    "kubelet NUMA nodes with single-numa-node": Fraction(99, 100),
    "kubelet replay": ALL,
    "recordings": ALL,
    # A search may be too long, as that for five requests for all devices.
    "allocations not left open": Fraction(98, 100),
    "selectors not left open": ALL,
}
