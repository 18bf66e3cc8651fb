"""A farm: workers that share nothing with the coordinator except a store (decision 101)."""
