"""A real control plane on loopback, for tests and for people.

The modules, from the lowest layer up:

    supervise, process                       a program that ends with its starter, however that ends
    once, toolchain, build, assets           where etcd, kube-apiserver, … come from
    run_folder, ports, pki, kubeconfig, api  what a run, a server and a client need
    control_plane                            etcd, API server, scheduler and controllers as one context manager
    nodes                                    machines as objects: Node and NodeResourceTopology
    kubelets                                 machines whose pods the kubelet's own code admits, in one program
    hardware, real_kubelets                  machines with the kubelet itself, on described hardware
    relay, services                          what kube-proxy and kubelets do for local processes
    webhook_process                          the chart's Deployment as local processes
    gated, audit, terms                      pods that request NUMA nodes, their assignments, and the leader of each
    stubborn, mixed_load, restarts           everything restarted at random: python -m tests.cluster.restarts
    tend, up, __main__                       the same in the foreground: python -m tests.cluster up
    fixtures                                 the same as pytest fixtures, a plugin that tests/conftest.py loads
"""
