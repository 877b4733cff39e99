"""Reading bytes: paths, tar shards, their indices and the metadata beside them."""
