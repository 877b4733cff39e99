"""Benchmarks of energon_nodes and of its peers; `python tests/benchmarks/run.py` runs them."""
