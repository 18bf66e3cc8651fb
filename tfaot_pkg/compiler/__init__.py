"""From a listing of HLO to C++: `Program`, its passes, and the emitter of C++ over the kernel library."""
