"""The webhooks on pods: mutation at CREATE, validation."""
