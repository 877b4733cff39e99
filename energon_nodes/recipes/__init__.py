"""Whole graphs from descriptions: what a dataset file says, as nodes."""
