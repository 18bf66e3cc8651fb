"""Trust: who may sign a registry, and how readers verify it. TUF by python-tuf; no cryptography of our own."""
