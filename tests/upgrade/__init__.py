"""Upgrade from the previous release and rollback to it, on a real control plane under load.

previous/     the previous release as it was cut: its chart, its wheel and its locked requirements
previous.py   where they are, and the wheel installed with these requirements
standing.py   the pods that exist before the upgrade and must survive it
"""
