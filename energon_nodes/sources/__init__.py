"""Nodes that streams begin with."""
