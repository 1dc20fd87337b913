"""The binding guard: the webhook on pods/binding."""
