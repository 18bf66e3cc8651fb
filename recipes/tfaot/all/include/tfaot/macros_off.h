// tfaot/macros_off.h: hides the macros min and max, which a program may have as Windows does, until tfaot/macros_on.h: with
// them, headers of the C++ library do not compile. It has no include guard, and is for the other headers of tfaot alone.
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max
