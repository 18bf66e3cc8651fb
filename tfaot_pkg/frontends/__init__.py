"""Reads models of every framework, in environments of their own."""
