"""The command line, `energon-nodes`: one command in a file."""
