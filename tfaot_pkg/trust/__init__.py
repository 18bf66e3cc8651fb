"""Trust: who may say what is in a registry, and how readers check it. TUF by python-tuf; no cryptography of our own."""
