/* Short forms of functions against the interpreter for all 2^32 floats: see tests/short_forms.c. */
#define EVERY 1
#include "../short_forms.c"
