"""The program that runs inside a toolchain. The host imports only its `messages`."""
