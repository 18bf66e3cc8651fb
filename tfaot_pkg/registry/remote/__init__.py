"""A registry on a web server, as its reader sees it: addresses, transfers, the cache, and `Files` over HTTP.

Nothing here decides what is trusted: what has a digest in its name is checked before it is kept, all else is checked
by those who read it (trust/, registry/), and kept only when they have confirmed it.
"""
