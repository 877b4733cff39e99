"""Benchmarks are run by `run.py`, in an environment with all peers; pytest collects nothing here."""

collect_ignore_glob = ["*.py"]
