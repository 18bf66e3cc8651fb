"""Other forms of published or installed packages: wheels, conda packages, shared trees (decisions 110 and 115)."""
