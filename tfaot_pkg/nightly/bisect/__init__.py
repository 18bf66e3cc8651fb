"""Which component of a package's key makes the difference between two builds."""
