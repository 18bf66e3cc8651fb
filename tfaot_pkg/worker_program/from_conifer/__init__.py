"""Decision trees of conifer: its files (JSON), and its C++ with AP types, which g++ compiles."""
