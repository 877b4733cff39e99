"""Run the command line as `python -m energon_nodes.cli`."""

from __future__ import annotations

from energon_nodes.cli.main import main

if __name__ == "__main__":
    main()
