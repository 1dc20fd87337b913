"""Claims get the devices that an exhaustive search finds first, which upstream's allocator is."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.devices import (
    DRIVER,
    claim,
    device,
    device_class,
    distinct,
    first_available,
    match,
    request,
    resource_slice,
    result,
)
from tests.property.exhaustive_allocation import Exhaustive
from webhook.engine.dra.device_allocation import DeviceAllocator, Verdict
from webhook.engine.dra.device_pools import DeviceInventory
from webhook.engine.dra.device_selector import Selector, Unevaluable, _Parser
from webhook.formats.dra import Claim, DeviceClass, Slice

NIC = "nic.example.com"
A = f'device.attributes["{DRIVER}"]'


# ---- random nodes and claims

attributes = st.fixed_dictionaries(
    {"model": st.sampled_from(["a", "b"])},
    optional={"numa": st.sampled_from([0, 1, True]), "root": st.sampled_from([{"ints": [0, 1]}, {"ints": [2]}, 2])},
)
taints = st.sampled_from([[], [], [], [{"key": "bad", "effect": "NoSchedule"}], [{"key": "note", "effect": "None"}]])
consumption = st.sampled_from([None, None, 10, 20, 40])


@st.composite
def nodes(draw: st.DrawFn) -> list[dict[str, Any]]:
    found = [resource_slice("n1", name="counters", slices=2, sharedCounters=[COUNTERS])]
    for driver, most in ((DRIVER, 5), (NIC, 3)):
        devices = []
        for number in range(draw(st.integers(0, most))):
            fields: dict[str, Any] = {"attributes": draw(attributes), "taints": draw(taints)}
            amount = draw(consumption) if driver == DRIVER else None
            if amount:
                use = {"counterSet": "set", "counters": {"memory": {"value": str(amount)}}}
                fields["consumesCounters"] = [use]
            devices.append(device(f"{driver[:3]}-{number}", **fields))
        found.append(resource_slice("n1", devices, driver=driver, slices=2 if driver == DRIVER else 1))
    return found


COUNTERS = {"name": "set", "counters": {"memory": {"value": "60"}}}


@st.composite
def requests(draw: st.DrawFn, name: str) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if draw(st.integers(0, 3)) == 0:
        extra["tolerations"] = [{"key": "bad", "operator": "Exists"}]
    if draw(st.integers(0, 7)) == 0:
        extra["adminAccess"] = True
    expressions = draw(st.sampled_from([(), (), (f'{A}.?model.orValue("a") == "a"',), (f"has({A}.numa)",)]))
    count = draw(st.sampled_from([1, 1, 1, 2, 2, 3, None]))
    return request(name, count, *expressions, cls=draw(st.sampled_from([DRIVER, DRIVER, NIC])), **extra)


@st.composite
def claims(draw: st.DrawFn) -> list[dict[str, Any]]:
    found = []
    for number in range(draw(st.integers(1, 2))):
        wanted = [draw(requests(f"r{at}")) for at in range(draw(st.integers(1, 2)))]
        if draw(st.integers(0, 3)) == 0:
            subrequests = [draw(requests(name)) for name in ("s0", "s1")]
            for one in subrequests:
                one["exactly"].pop("adminAccess", None)
            wanted.append(first_available("any", *subrequests))
        kinds = st.sampled_from([match, distinct])
        names = st.sampled_from([(), (), ("r0",), ("any",), ("any/s0",), ("r0", "any/s1")])
        constraints = [
            draw(kinds)(f"{DRIVER}/{draw(st.sampled_from(['numa', 'root', 'model']))}", *draw(names))
            for _ in range(draw(st.sampled_from([0, 0, 1, 2])))
        ]
        found.append(claim(f"c{number}", wanted, constraints=constraints))
    return found


@given(nodes(), claims(), st.sets(st.integers(0, 4), max_size=3))
def test_claims_get_the_first_assignment_of_an_exhaustive_search(
    slices: list[dict[str, Any]], wanted: list[dict[str, Any]], held: set[int]
) -> None:
    inventory = DeviceInventory()
    for name in (DRIVER, NIC):
        inventory.put_class(DeviceClass.from_object(device_class(name)))
    for one in slices:
        inventory.put_slice(Slice.from_object(one))
    results = [result(f"gpu-{number}", pool="n1") for number in sorted(held)]
    inventory.put_claim(Claim.from_object(claim("other", results=results)))
    read = [Claim.from_object(one) for one in wanted]
    node = inventory.on("n1", {})
    expected = Exhaustive(node, read, inventory.classes).first()
    allocator = DeviceAllocator(inventory)
    fit = allocator.fitter(read).on(node)
    # A constraint that rejects one of all devices ends upstream's search with an error.
    takes_all = any(
        one.count is None
        for spec in (found.spec for found in read)
        for whole in spec.requests
        for one in whole.first_available or (whole,)
        if spec.constraints
    )
    if fit.verdict is Verdict.FITS:
        found = [[one.device.id.name for one in devices] for devices in fit.devices]
        assert found == expected
    else:
        assert fit.verdict is Verdict.DOES_NOT_FIT
        assert expected is None or takes_all
    # An answer that is remembered is the same.
    assert allocator.fitter(read).on(node) == fit


expressions = st.recursive(
    st.sampled_from(
        [
            'device.driver == "gpu.example.com"',
            f'{A}.model == "a"',
            f"{A}.numa == 1",
            f"{A}.numa in [0, 1]",
            f"has({A}.root)",
            f'"numa" in {A}',
            f"{A}.?numa.orValue(7) == 7",
            f'device.capacity["{DRIVER}"].memory.isLessThan(quantity("15"))',
            "device.allowMultipleAllocations",
            f'"{DRIVER}" in device.capacity',
        ]
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||", "==", "!="]), inner).map(lambda x: f"({x[0]} {x[1]} {x[2]})"),
        inner.map(lambda x: f"!({x})"),
        st.tuples(inner, inner, inner).map(lambda x: f"({x[0]} ? {x[1]} : {x[2]})"),
        inner.map(lambda x: f"cel.bind(x, {x}, x || {A}.numa == 0)"),
    ),
    max_leaves=6,
)
kinds_of_devices = st.builds(
    lambda values, memory, shared: device("d", attributes=values, capacity=memory, allowMultipleAllocations=shared),
    attributes,
    st.sampled_from([{}, {"memory": "10"}, {f"{DRIVER}/memory": "20"}]),
    st.booleans(),
)


@given(expressions, st.lists(kinds_of_devices, min_size=1, max_size=8))
def test_an_answer_that_is_kept_for_like_devices_is_that_of_each_device(
    expression: str, found: list[dict[str, Any]]
) -> None:
    kept = _fresh(expression)
    for one in found:
        (read,) = Slice.from_object(resource_slice("n1", [one])).devices
        answer = kept.selects(read)
        assert answer == _fresh(expression).selects(read)
        assert isinstance(answer, bool | Unevaluable)


def _fresh(expression: str) -> Selector:
    parser = _Parser(expression)
    return Selector(parser.whole(), parser.operations)
