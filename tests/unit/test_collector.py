"""The garbage collector is paused as long as any task needs it, and leaves alone what was built then."""

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


def test_what_was_built_during_a_pause_is_not_scanned_afterwards() -> None:
    with collector_paused():
        built: list[list[int]] = [[] for _ in range(10)]
    assert not any(each is built for each in gc.get_objects())
    gc.unfreeze()
    assert any(each is built for each in gc.get_objects())
