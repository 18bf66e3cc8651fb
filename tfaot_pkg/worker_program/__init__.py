"""The program that runs inside a toolchain. The host imports its `messages` and `wire` only."""
