"""The placement controller: assigns nodes to gated pods and gangs, then removes their gate."""
