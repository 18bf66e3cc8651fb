"""Other forms of packages: wheels, conda packages, shared trees, recipes (decisions 110 and 115)."""
