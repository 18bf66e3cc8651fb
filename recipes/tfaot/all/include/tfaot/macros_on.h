// tfaot/macros_on.h: restores what tfaot/macros_off.h hides.
#pragma pop_macro("max")
#pragma pop_macro("min")
