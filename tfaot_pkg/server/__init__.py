"""A registry's folder over HTTP, read-only: `tfaot-pkg serve DIR`.

For a laptop, a test, a small group. A large audience is better served by nginx with registry/nginx.conf, which does the
same; tests/server/ holds both to it.
"""
