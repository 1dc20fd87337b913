"""How cluster autoscalers are asked for nodes."""
