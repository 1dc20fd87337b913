"""Random pods with every shape of node affinity that the API server accepts, and random constraints for them."""

from typing import Any

from hypothesis import strategies as st

from webhook.formats.patches.affinity_patch import PREFERRED, REQUIRED, Constraint, NodeRef, none_of, one_of, preference

NAMES = [f"n{i}" for i in range(6)]

# n0 .. n3 have hostname labels of their own; n4 has none, n5 shares one.
NODES = [NodeRef(name, f"host-{name}" if name not in {"n4", "n5"} else None) for name in NAMES]

_values = st.lists(st.sampled_from(["a", "b", *(f"host-{name}" for name in NAMES)]), min_size=1, max_size=2)
_expressions = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["zone", "kubernetes.io/hostname"]),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": _values,
    }
)
_fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(st.sampled_from(NAMES), min_size=1, max_size=1),
    }
)
terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.none() | st.lists(_expressions, max_size=2),
        "matchFields": st.none() | st.lists(_fields, max_size=2),
    },
)
_preferred = st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": terms})
_node_affinity = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.none() | st.fixed_dictionaries({"nodeSelectorTerms": st.lists(terms, max_size=3)}),
        PREFERRED: st.none() | st.lists(_preferred, max_size=2),
    },
)
_affinity = st.fixed_dictionaries(
    {}, optional={"nodeAffinity": st.none() | _node_affinity, "podAntiAffinity": st.just({})}
)
pods: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("p")}, optional={"annotations": st.none() | st.just({"a/b": "1", "c~d": "2"})}
        ),
        "spec": st.fixed_dictionaries(
            {"containers": st.just([{"name": "c"}])}, optional={"affinity": st.none() | _affinity}
        ),
    }
)

_some = st.lists(st.sampled_from(NODES), unique=True, min_size=1)
constraints = st.builds(
    Constraint,
    alternatives=_some.map(one_of) | _some.map(none_of) | st.just(()),
    preferred=st.lists(st.builds(preference, st.sampled_from(NODES), st.integers(0, 100)), max_size=3).map(tuple),
)
