"""The segments that are said to be held, compared with placing them: gangs that fit hold all, others do not."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.gangs import GPU, RACK, ZONE, gpus, group, podset, whole_nodes
from tests.unit.engine.gang.assignments import assigned
from webhook.engine.gang.gang_spec import Constraint, Segments
from webhook.engine.gang.pod_counts import Caps
from webhook.engine.gang.remaining import Remaining
from webhook.engine.gang.segments_held import segments_short
from webhook.engine.gang.slices import slice_gang
from webhook.engine.topology.tree import ROOT, Domain

PLACES = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("12")), min_size=1, max_size=5)
LAYERS = st.sampled_from(
    [
        Segments(2, Constraint(RACK)),
        Segments(3, Constraint(RACK)),
        Segments(4, Constraint(ZONE)),
        Segments(4, Constraint(ZONE), inner=Segments(2, Constraint(RACK))),
    ]
)


@settings(max_examples=300, deadline=None)
@given(PLACES, st.lists(st.integers(0, 6), min_size=5, max_size=5), LAYERS, st.integers(1, 12))
def test_a_gang_is_placed_exactly_if_no_segments_are_short(
    places: list[tuple[str, str]], free: list[int], segments: Segments, pods: int
) -> None:
    if segments.inner is not None:
        pods = -(-pods // segments.size) * segments.size
    names = {f"n{index}": (zone, f"{zone}{rack}") for index, (zone, rack) in enumerate(places)}
    amounts = {name: {GPU: amount} for name, amount in zip(names, free, strict=False)}
    asked = group(podset(name="w", of=gpus(), count=pods, segments=segments))
    answer = assigned(whole_nodes(places=names, free=amounts), asked)
    (pod_slice,) = slice_gang(answer.snapshot, answer.tree, asked).all_slices()
    slots, _ = Remaining(answer.snapshot, answer.tree, Caps()).slots(pod_slice.pod_class)
    short = segments_short(answer.tree, slots, segments, Domain(ROOT, 0), pods)
    assert answer.assigned == (short is None)
    if short is not None:
        assert answer.why[0].segments == short
        assert short.holds < short.needed
