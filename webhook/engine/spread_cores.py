"""How many pods get one CPU of each of several cores (SpreadByPCPUs), on machines with more than two threads per core.

A pod takes a CPU of as many cores as it requests CPUs. m pods fit if and only if the cores together have enough, where
a core counts with at most m of its free CPUs: sum over cores of min(free, m) >= m * cpus (Gale-Ryser).

Known are the wholly free cores, the number of other cores with a free CPU, and these cores' free CPUs together. How
they are distributed is not. The sum is least if as many of these cores as possible have all but one of their CPUs free
and the others one, so this is what counts: a node never counts more pods than it takes, and the first one is exact.
"""

import numpy as np

from webhook.engine.arrays import Amounts


def spread_pods(free: Amounts, split: Amounts, cores: Amounts, threads: Amounts, cpu: int) -> Amounts:
    """int64, of the shape of `free`: pods of `cpu` millicores each.

    free: free millicores; split: those in cores of which a CPU is taken; cores: 1000 for each core with a free CPU;
    threads: per core.
    """
    cpus, wide = max(cpu // 1000, 1), np.maximum(threads, 2)
    partly = np.maximum(np.minimum(split, free), 0) // 1000
    whole = np.maximum(free // 1000 - partly, 0) // wide
    others = np.clip(cores // 1000 - whole, 0, partly)
    beyond = partly - others
    room = np.maximum(wide - 2, 1)
    nearly = np.minimum(beyond // room, others)
    rest = np.where(nearly < others, beyond - nearly * room, 0)
    pods = np.zeros_like(free)
    for m in range(1, int(wide.max(initial=2)) + 1):
        have = whole * np.minimum(wide, m) + nearly * np.minimum(wide - 1, m)
        have += np.where(nearly < others, np.minimum(1 + rest, m) + (others - nearly - 1), 0)
        pods = np.where((have >= m * cpus) & (m <= wide), m, pods)
    # With as many pods as threads, no core has more CPUs than pods: then the sum alone decides.
    return np.where(pods >= wide, np.maximum(pods, free // 1000 // cpus), pods)
