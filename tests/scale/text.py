"""The figures of one size for people."""

from __future__ import annotations

from typing import Any

_LINES = """\
{nodes} nodes x {zones} NUMA nodes, {pods} pods; load average {load_average[0]} on {cpus} CPUs
  ready after {ready[seconds]} s ({ready[cpu_seconds]} s of CPU)
  peak memory: {ready[peak_mib]} MiB when ready, {memory[peak_mib]} MiB at the end
  CPU of an NRT update, and updates in a second of CPU:
    no amount changes: {updates[unchanged_cpu_us]} us, {updates[unchanged_per_cpu_second]}
    an amount changes: {updates[changed_cpu_us]} us, {updates[changed_per_cpu_second]}
  {steady[updates_per_second]} NRT updates and {steady[pods_per_second]} pods a second need {steady[cores]} cores
    ms behind, p50 and p99: NRTs {nrts[p50]} {nrts[p99]}, pods {pods_lag[p50]} {pods_lag[p99]}
    ms of a review, p50 and p99: creation {create[p50]} {create[p99]}, binding {bind[p50]} {bind[p99]}
    ms from a gated pod to its assignment: {assign[p50]} {assign[p99]}
    pods: {steady[created]} created, {steady[bound]} bound, {steady[refused_bindings]} bindings refused
  {decisions[per_second]} decisions a second, {decisions[cpu_ms]} ms of CPU each, p50 {ms[p50]} ms, p99 {ms[p99]} ms
  goals: {goals}"""


def text(figures: dict[str, Any]) -> str:
    """A few lines."""
    steady = figures["steady"]
    missed = [name for name, met in figures["goals"].items() if not met]
    return _LINES.format_map(
        figures
        | {
            "nrts": steady["lag_ms"]["noderesourcetopologies"],
            "pods_lag": steady["lag_ms"]["pods"],
            "create": steady["create_ms"],
            "bind": steady["bind_ms"],
            "assign": steady["assign_ms"],
            "ms": figures["decisions"]["ms"],
            "goals": f"missed {', '.join(missed)}" if missed else "met",
        }
    )
