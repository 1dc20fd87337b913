"""One sample of everything the service measures."""

from datetime import UTC, datetime

from webhook.metrics import ClusterSample, InformerSample, Sample

SAMPLE = Sample(
    ready=True,
    informers=(
        InformerSample("nodes", synced=True, objects=3, lists=2, last_event=1.5, faulty_objects=1),
        InformerSample("pods", synced=False, objects=0, lists=0, last_event=9.0, faulty_objects=0),
    ),
    generation=7,
    certificate_end=datetime(2030, 1, 1, tzinfo=UTC),
    shards={"": 2, "zone-a": 1},
    cluster=ClusterSample(
        policy_disagreements=2,
        unknown_policies=3,
        gated_pods=5,
        waiting_pods={("team-a", "NoSingleNUMANode"): 4, ("_other", "Pending"): 1},
        stuck_pods=1,
        scale_up_pods={"ClusterAutoscaler": 2},
        provisioning_requests={"Provisioned": 1},
        assumed_count=4,
        oldest_waiting_pod=1_700_000_000,
        oldest_waiting_gang=1_700_000_060,
        preemption_is_paused=True,
        nodes_without_topology=6,
        nodes_with_stale_topology=2,
        rooms=(
            ("cpu", "", "", "", 12.5, 8.0),
            ("cpu", "dc", "example.com/rack", "", 10.0, 8.0),
            ("cpu", "dc", "example.com/rack", "zone-a/rack-1", 2.5, 2.0),
            ("memory", "", "", "", 1024.0, None),
        ),
    ),
    api_errors={("GET", "404"): 3, ("PATCH", "none"): 1},
)
