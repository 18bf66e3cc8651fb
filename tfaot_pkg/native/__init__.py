"""From compiled objects to one static and one shared library behind the C ABI."""
