"""A look inside: what a model becomes on its way to a library, and where its time goes."""
