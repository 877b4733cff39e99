"""The node contract, and what every node stands on: keys, randomness, shares, errors."""
