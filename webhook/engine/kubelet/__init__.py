"""A kubelet's admission, predicted: topology manager with the static policies of cpu, memory and device managers."""

from webhook.engine.kubelet.prediction import predict

__all__ = ["predict"]
