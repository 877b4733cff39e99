"""Loaders: streams on ranks and workers, checkpoints, and torch's DataLoaders."""
