"""The garbage collector is paused as long as any task needs it."""

import gc

from webhook.collector import collector_paused


def test_the_collector_runs_again_after_the_last_pause() -> None:
    outer, inner = collector_paused(), collector_paused()
    assert gc.isenabled()
    with outer:
        with inner:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
