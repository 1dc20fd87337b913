"""The simulated day in which gangs starve: a short one."""

from tests.bench.starvation import DAY, lines, text
from webhook.simulation.trace import RecordedPod


def test_gangs_start_sooner_when_a_rack_is_kept_for_them_and_no_less_is_in_use() -> None:
    # 28 days in one: a pod of four GPUs every 36 s, for 25 minutes each, which is half of the GPUs.
    recorded = [RecordedPod(f"p{n}", 4000, 4096, 4, False, n * 36 * 28, 6000) for n in range(DAY // 36)]
    without, kept = lines(recorded, [0, 600], seconds=14_400)
    assert (without["gangs"], without["reserveAfter"], kept["reserveAfter"]) == (14, 0, 600)
    assert kept["started"] >= without["started"]
    assert kept["longest"] < without["longest"]
    assert kept["gpusInUse"] >= 0.98 * without["gpusInUse"]
    assert text(kept).startswith("kept after 600 s: gangs 14, started ")
