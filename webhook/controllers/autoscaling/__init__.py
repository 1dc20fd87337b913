"""Shows cluster autoscalers the pods that wait behind the gate and that a new node would help."""
