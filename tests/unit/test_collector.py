"""The garbage collector is paused as long as any task needs it, and leaves alone what was built then."""

import gc
from weakref import ref

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
        built: list[list[int]] = [[] for _ in range(gc.get_threshold()[0] + 1)]
    assert not any(each is built for each in gc.get_objects())
    gc.unfreeze()
    assert any(each is built for each in gc.get_objects())


def test_a_pause_in_which_little_was_built_hides_no_garbage() -> None:
    class Garbage:
        """Refers to itself."""

        def __init__(self) -> None:
            self.own = self

    gc.collect()
    with collector_paused():
        gone = ref(Garbage())
    assert gone() is not None
    gc.collect()
    assert gone() is None
