"""topology-webhook: NUMA- and rack-correct placement of pods on an unmodified kube-scheduler."""
