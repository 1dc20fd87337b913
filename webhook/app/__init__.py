"""The process: settings, informers, certificate, leader election and the leader's runnables."""
