"""The process put together: settings, informers, certificate, leadership, what the leader runs."""
