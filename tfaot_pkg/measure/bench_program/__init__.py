"""The programs that run in peers' environments. The host imports `messages` only."""
