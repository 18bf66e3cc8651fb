"""Networks of hls4ml: their files (.fml), and its emulator, which is C++ that g++ compiles."""
