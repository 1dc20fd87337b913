"""What a node must offer as a whole: resources, node affinity, taints; and which nodes a pod prefers by them."""
