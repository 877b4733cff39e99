"""Nodes that shape and mix streams, one verb in a file."""
