"""What compiled files hold, and what those of a package may hold."""
