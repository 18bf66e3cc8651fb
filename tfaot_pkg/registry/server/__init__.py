"""A registry's folder over HTTP, read-only: `tfaot-pkg serve DIR`.

For a laptop, a test or a small group. For many users, run nginx with registry/nginx.conf, which applies the same rules;
tests/server/ checks both.
"""
