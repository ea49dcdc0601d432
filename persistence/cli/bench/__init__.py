"""`bench`: the store beside hand-written driver code, in one run."""
