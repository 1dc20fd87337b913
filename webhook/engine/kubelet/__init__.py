"""Prediction of a kubelet's admission: Topology Manager with static policies of the CPU, memory and device managers."""

from webhook.engine.kubelet.prediction import predict

__all__ = ["predict"]
