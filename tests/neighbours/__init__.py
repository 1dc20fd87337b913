"""Other projects' components, built from their own Go modules and run beside ours.

catalogue       what there is: a Go module, its program, the manifests of it
build           the program and the manifests, once per set of pins
manifests       what a component's own kustomization or chart installs, its webhooks on loopback
operators       operators that make pods of workloads
kueue           Kueue's manager and a queue
schedulers      further schedulers
beside          those that place or queue pods, for the proof
trainer         Kubeflow's trainer
untouched       what a component wrote on pods that it does not manage
publishers      exporters of NodeResourceTopologies, a process for each machine
exporters       those of them that the proof can run
autoscalers     cluster autoscalers that add nodes, by cluster_autoscaler and karpenter
node_groups     the groups of machines that they add to
new_nodes       the machines behind the nodes that they add
"""
