"""Whether this replica leads, and whether it knows of everything that an earlier leader promised.

What the last leader promised may become visible late: a binding is answered first and written afterwards. How late:
1. The API server works on a request for 60 s at most (--request-timeout, which bounds what the client asks for), and
   etcd goes on with a write it was given for 7 s more (ServerConfig.ReqTimeout: 5 s and two elections of 1 s).
2. The last leader promised nothing after its deadline, and the earliest claim of another follows that deadline by
   lease_duration - renew_deadline: 5 s.
3. What is written reaches our copy of the cluster with the next event of a watch; 3 s leave room for a busy one.
So 60 + 7 - 5 + 3 = 65 s after its claim (`Settings.assume_ttl`) a new leader knows of everything that was promised.
Until then it may promise only what the last leader cannot have promised otherwise: a pod that was placed before, as
placed. There is nothing to wait for in the first term of all, or when the last leader left with all that it had
promised settled. That holds for a copy that follows. After an outage, which often is why the leader changed, the watch
of pods may still wait for its next attempt: then the new leader waits for the watch, too, once in a term.

Source: kubernetes apiserver pkg/server/config.go, pkg/endpoints/filters/request_deadline.go; etcd server/config.
"""

from collections.abc import Callable
from typing import Final

from webhook.kube.client import Client
from webhook.kube.election import Term, Timing
from webhook.kube.lease import LeaderElection, clock
from webhook.signal import Signal

_POLL_SECONDS: Final = 0.05


class Leadership:
    """The state that decisions and controllers read. It exists before them; `app.leader_elector` runs the election.

    lease: namespace and name; follows: whether our copy of the pods is current, at this moment.
    """

    def __init__(
        self,
        client: Client,
        lease: tuple[str, str],
        identity: str,
        timing: Timing,
        assume_ttl: float,
        follows: Callable[[], bool],
    ) -> None:
        self.identity = identity
        self.timing = timing
        self.began = Signal[[Term]]()
        """Emitted soon after a term began."""
        self.ended = Signal[[]]()
        """Emitted soon after it ended."""
        self.election = LeaderElection(client, lease, identity, timing, self.began.emit, self.ended.emit)
        self._assume_ttl = assume_ttl
        self._follows = follows
        self._handing_over = False
        self._settled: Term | None = None

    @property
    def term(self) -> Term | None:
        """The term that goes on at this moment; None when we do not lead."""
        return self.election.term

    def is_leader(self) -> bool:
        """Whether we lead at this moment. Check right before acting: a term ends by the clock."""
        return self.election.is_leader()

    def is_elsewhere(self) -> bool:
        """Whether another replica leads as far as we know, or will in a moment because we hand over."""
        return self._handing_over or self.election.holder not in {"", self.identity}

    def seconds_until_settled(self) -> float:
        """How long, at least, something that an earlier leader promised may still be unknown to us; 0: nothing is.

        Only of use to a leader.
        """
        term = self.term
        if term is None:
            return self._assume_ttl
        if self._settled is term:
            return 0.0
        if (seconds := term.alone_since + self._assume_ttl - clock()) > 0:
            return seconds
        if not self._follows():
            return _POLL_SECONDS
        self._settled = term
        return 0.0

    def resign(self) -> None:
        """Lead no more, from this moment on."""
        self._handing_over = self.is_leader()
        self.election.resign()
