"""The C++ compiler, found and run, and what the objects define that it makes."""
