"""From a live object of a framework to a callable package, in one line of Python: `tfaot_pkg.compile`."""
