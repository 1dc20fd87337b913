"""Restarts everything at random moments while pods are created and assigned: the end state is as without restarts.

    python -m tests.cluster.restarts --seed N --rounds K

A round, on a control plane of its own:
1. Nodes, and two replicas with every failurePolicy `Fail`: a client whose request cannot be reviewed retries it.
2. A user creates the objects of `mixed_load`.
3. Meanwhile parts are killed and started again at random moments: a replica (by SIGKILL, or asked by SIGTERM), the
   scheduler, the API server, etcd. Or a replica is paused for longer than a leader may be silent.
4. After the last restart, the expected end state must be reached, whatever the seed. Only pods that were bound while
   there was no leader may lack an allocation: the nodes have no exporter that could show where they are. No NUMA node
   is
   over-committed, and no leader has assigned anything after the next one began.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from tests.cluster.assets import find_assets
from tests.cluster.audit import overcommitted
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gated import Pods
from tests.cluster.mixed_load import EXPECTED, Became, MixedLoad, fleet, racks_known
from tests.cluster.nodes import create_machines
from tests.cluster.stubborn import stubbornly, until
from tests.cluster.terms import overlapping, terms, uncertain_nodes
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from tests.seeds import fresh_seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# A leader counts as dead soon, so that a round has many leaders.
VALUES = {
    "settings": {"gate": "Always", "drainSeconds": 2, **QUICK_LEASE},
    "webhook": {"timeoutSeconds": 2, "failurePolicy": "Fail", "bindFailurePolicy": "Fail"},
}
# Between two restarts; a replica, or an API server, is ready again after two or three seconds.
LONGEST_PAUSE = 4.0
LONGEST_DOWN = 2.0
# Longer than the Lease: another replica leads when this one continues.
SILENT_SECONDS = 7.0
PARTS = ("kube-scheduler", "kube-apiserver", "etcd", "replica killed", "replica asked to end", "replica stopped")


class RestartRound(NamedTuple):
    """The result of one round."""

    seed: int
    restarts: Mapping[str, int]
    became: Mapping[str, Became]
    overcommitted: int
    terms: int
    grants: int
    overlapping: int
    seconds: float

    @property
    def good(self) -> bool:
        """Whether the end state is as without restarts, and no two leaders overlapped."""
        return self.became == EXPECTED and not self.overcommitted and not self.overlapping

    def __str__(self) -> str:
        parts = ", ".join(f"{count} x {part}" for part, count in sorted(self.restarts.items()))
        wrong = {name: now for name, now in self.became.items() if now != EXPECTED.get(name)}
        verdict = "as without restarts" if self.good else f"WRONG: {wrong}"
        return (
            f"seed {self.seed}: {verdict}; {parts or 'no restarts'}; {self.terms} terms with {self.grants} guarded "
            f"bindings, {self.overlapping} overlap; {self.overcommitted} NUMA resources over-committed; "
            f"{self.seconds:.0f} s"
        )


def play(assets: Mapping[str, Path], seed: int, restarts: int) -> RestartRound:
    """Run one round on a control plane of its own."""
    began = time.monotonic()
    chance = random.Random(seed)  # noqa: S311 - to be repeated by its seed
    with ControlPlane.start(assets) as plane:
        plane.install_crds()
        create_machines(plane.api, fleet())
        with racks_known(plane), local_webhook(plane, replicas=2, values=VALUES) as webhook:
            load = MixedLoad(Pods(plane, "default"), chance)
            parts = Parts(plane, webhook, random.Random(seed + 1))  # noqa: S311
            with parts.restarting(restarts):
                load.create_all()
                load.end_the_first_of_the_race()
            parts.wait_until_ready()
            logs = [replica.process.log for replica in webhook.replicas]
            with contextlib.suppress(TimeoutError):
                until("the expected end state", lambda: load.became(uncertain_nodes(logs)) == EXPECTED)
            became = load.became(uncertain_nodes(logs))
            over = stubbornly(lambda: overcommitted(plane, load.pods.all().values()))
            led = terms(logs)
        return RestartRound(
            seed,
            parts.restarts,
            became,
            len(over),
            len(led),
            sum(term.grants for term in led),
            len(overlapping(led)),
            time.monotonic() - began,
        )


class Parts:
    """The parts that are restarted: replicas and components."""

    def __init__(self, plane: ControlPlane, webhook: LocalWebhook, chance: random.Random) -> None:
        self._plane = plane
        self._webhook = webhook
        self._chance = chance
        self.restarts: defaultdict[str, int] = defaultdict(int)

    @contextlib.contextmanager
    def restarting(self, count: int) -> Iterator[None]:
        """Do `count` restarts in parallel with the body. Ends when the last of them is done."""
        thread = threading.Thread(target=self._restart_often, args=(count,), name="restarts")
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def wait_until_ready(self) -> None:
        """Wait until all components and replicas are ready."""
        self._plane.wait_until_ready()
        for replica in self._webhook.replicas:
            replica.wait_until_ready()

    def _restart_often(self, count: int) -> None:
        for _ in range(count):
            time.sleep(self._chance.uniform(0, LONGEST_PAUSE))
            self._restart_one()

    def _restart_one(self) -> None:
        part, down = self._chance.choice(PARTS), self._chance.uniform(0, LONGEST_DOWN)
        self.restarts[part] += 1
        if not part.startswith("replica"):
            self._plane.restart(part, down=down)
            return
        replica = self._chance.choice(self._webhook.replicas)
        if part == "replica stopped":
            replica.process.pause()
            time.sleep(SILENT_SECONDS)
            replica.process.resume()
            return
        if part == "replica killed":
            replica.process.kill()
        else:
            replica.process.stop()
        time.sleep(down)
        replica.start(replica.backend)


def main() -> int:
    """Run rounds; 0 if all were good."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.restarts", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="of the first round; the next ones count up")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--restarts", type=int, default=25, help="in each round; 0 shows the end state without any")
    options = parser.parse_args()
    seed = fresh_seed() if options.seed is None else options.seed
    assets, good = find_assets(print), True
    for number in range(options.rounds):
        outcome = play(assets, seed + number, options.restarts)
        print(outcome, flush=True)  # noqa: T201 - the answer
        good = good and outcome.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
