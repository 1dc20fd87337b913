"""Lines of a recorded cluster: what they mean, and how a wrong one is named."""

import re

import pytest

from webhook.simulation import trace
from webhook.simulation.trace import RecordedNode, RecordedPod, TraceError, read_nodes, read_pods

NODES = "sn,cpu_milli,memory_mib,gpu,model"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"


def nodes(*lines: str) -> list[RecordedNode]:
    return read_nodes([f"{line}\n" for line in (NODES, *lines)], "nodes.csv")


def pods(*lines: str) -> list[RecordedPod]:
    return read_pods([f"{line}\n" for line in (PODS, *lines)], "pods.csv")


def test_a_node_has_two_numa_nodes_and_a_large_one_without_gpus_eight() -> None:
    gpus, large, small = nodes("a,96000,393216,7,G2", "b,64000,8192,0,", "c,32000,8192,0,")
    assert (gpus.numa_nodes, large.numa_nodes, small.numa_nodes) == (2, 8, 2)
    assert (gpus.cpus, gpus.memory_gib, gpus.gpus_near()) == (96, 384, [4, 3])


def test_pods_come_in_order_of_creation_and_run_from_their_start_to_their_deletion() -> None:
    late, early = "late,3152,2048,1,500,,BE,Running,70,100,80", "early,11300,8192,0,0,,LS,Pending,5,90,"
    first, second = pods(late, early)
    assert first == RecordedPod("early", 11_300, 8192, 0, best_effort=False, created=5, run_seconds=85)
    assert second == RecordedPod("late", 3152, 2048, 1, best_effort=True, created=70, run_seconds=20)
    assert (first.cpu, second.cpu) == ("12", "3152m")


NUMBER = "a whole number from 0 to "


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("a,-1,8192,0,", f"cpu_milli is '-1'. Write {NUMBER}1000000000."),
        ("a,1e3,8192,0,", f"cpu_milli is '1e3'. Write {NUMBER}1000000000."),
        ("a,٣,8192,0,", f"cpu_milli is '٣'. Write {NUMBER}1000000000."),
        ("a,32000,99999999999999999999,0,", f"memory_mib is '99999999999999999999'. Write {NUMBER}1099511627776."),
        ("a,32000,8192,,", f"gpu is ''. Write {NUMBER}1024."),
        ("a,32000,8192", f"gpu is nothing. Write {NUMBER}1024."),
        (",32000,8192,0,", "sn is ''. Write a name of 1 to 253 printable characters."),
        ("a\x1b[2J,32000,8192,0,", "sn is 'a\\x1b[2J'. Write a name of 1 to 253 printable characters."),
        ("ok,32000,8192,0,", "sn is 'ok'. Write a name that no line above has."),
    ],
)
def test_a_wrong_node_is_named_with_line_column_value_and_what_is_allowed(line: str, fault: str) -> None:
    with pytest.raises(TraceError, match=f"^{re.escape(f'nodes.csv: line 3: {fault}')}$"):
        nodes("ok,1000,1024,0,", line)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("p,1000,1024,0,0,,LS,Running,-5,9,", f"creation_time is '-5'. Write {NUMBER}10000000000."),
        ("p,1000,1024,0,0,,LS,Running,5,4,", "deletion_time is '4'. Write a time from creation_time on, which is 5."),
        ("p,1000,1024,0,0,,XX,Running,5,9,", "qos is 'XX'. Write one of LS, Guaranteed, BE, Burstable."),
        ("p,1000,1024,0,0,,LS,Running,5,9,x", f"scheduled_time is 'x'. Write {NUMBER}10000000000."),
    ],
)
def test_a_wrong_pod_is_named_likewise(line: str, fault: str) -> None:
    with pytest.raises(TraceError, match=f"^{re.escape(f'pods.csv: line 2: {fault}')}$"):
        pods(line)


def test_missing_columns_are_named_with_those_that_are_needed() -> None:
    with pytest.raises(
        TraceError, match=r"line 1: the columns memory_mib, gpu are missing\. Needed are: sn, cpu_milli"
    ):
        read_nodes(["sn,cpu_milli\n", "a,1000\n"], "nodes.csv")


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([], "the columns sn, cpu_milli, memory_mib, gpu are missing"),
        ([f"{NODES}\n"], "there is no line below the header"),
        ([f"{NODES}\n", '"a,1000,1024,0,\n'], "line 2: not CSV: unexpected end of data"),
        ([f"{NODES}\n", "x" * 20_000], "line 2 has more than 10000 characters"),
    ],
)
def test_a_file_that_is_no_list_is_refused_without_reading_on(lines: list[str], fault: str) -> None:
    with pytest.raises(TraceError, match=fault):
        read_nodes(lines, "nodes.csv")


def test_more_lines_than_any_cluster_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_LINES", 2)
    assert len(nodes("a,1000,1024,0,", "b,1000,1024,0,")) == 2
    with pytest.raises(TraceError, match="line 4: there are more than 2 lines"):
        nodes("a,1000,1024,0,", "b,1000,1024,0,", "c,1000,1024,0,")
