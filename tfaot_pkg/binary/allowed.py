"""What the binaries of a package may need from the system and hold: lists of what is allowed, all else is refused.

`system`, `execve`, `dlopen`, `socket`, `fopen` and `getenv` are in none of the lists for libraries: a model's graph can
name any symbol (XLA's custom calls), and this is what keeps such a name from becoming a call.
"""

from __future__ import annotations

_MEMORY = frozenset("calloc free malloc posix_memalign realloc aligned_alloc".split())
_STRINGS = frozenset(
    "bcmp memchr memcmp memcpy memmove memset strcmp strlen strncmp strchr snprintf __memcpy_chk __memmove_chk"
    " __memset_chk __snprintf_chk __stack_chk_fail".split()
)

_MATH = frozenset(
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs floor fma fmax"
    " fmin fmod frexp hypot ldexp lgamma log log10 log1p log2 logb lrint lround llrint llround modf nearbyint nextafter"
    " pow remainder rint round roundeven scalbn sin sincos sinh sqrt tan tanh tgamma trunc".split()
)
_MATH_OF_ALL_TYPES = frozenset(f"{name}{suffix}" for name in _MATH for suffix in ("", "f"))

_THREADS = frozenset(
    "pthread_mutex_lock pthread_mutex_unlock sched_yield __tls_get_addr __cxa_thread_atexit_impl __cxa_finalize"
    " abort".split()
)
_START_FILES = frozenset("_ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __gmon_start__".split())
"""What the compiler's start files ask for if it is there."""

SHARED_LIBRARY = _MEMORY | _STRINGS | _MATH_OF_ALL_TYPES | _THREADS | _START_FILES
"""What a shared library may need."""

CPP_RUNTIME = frozenset(
    # Memory, errors and locks of libstdc++ and libgcc's unwinder, which libraries carried a copy of.
    "_dl_find_object dl_iterate_phdr __libc_single_threaded __pthread_key_create pthread_key_create pthread_once"
    " pthread_getspecific pthread_setspecific fputc fputs fwrite sprintf stderr strncmp gettext dcgettext syscall"
    " __getauxval getauxval secure_getenv strtoul __isoc23_strtoul __sprintf_chk __fprintf_chk putc".split()
)
"""What may be needed as well by what carries a copy of GCC's C++ runtime (made before the headers 1.1)."""

CPP_SYMBOLS = frozenset(
    "_Unwind_Resume __gxx_personality_v0 __dso_handle __cxa_guard_acquire __cxa_guard_release"
    " __cxa_guard_abort __cxa_begin_catch __cxa_end_catch __cxa_rethrow __cxa_throw __cxa_allocate_exception"
    " __cxa_free_exception __cxa_thread_atexit __cxa_throw_bad_array_new_length __cxa_pure_virtual __cxa_atexit".split()
)
"""What an object of that time may need of the C++ runtime, names of C++'s standard library aside."""

_ARITHMETIC = frozenset(
    "__mulsc3 __muldc3 __divsc3 __divdc3 __multi3 __divti3 __modti3 __udivti3 __umodti3 __divmodti4 __udivmodti4"
    " __floattisf __floattidf __floatuntisf __floatuntidf __fixsfti __fixdfti __fixunssfti __fixunsdfti __powisf2"
    " __powidf2 __popcountdi2 __popcountti2 __clzti2 __ctzti2 __truncsfhf2 __truncdfhf2 __extendhfsf2 __extendhfdf2"
    " __truncsfbf2 __truncdfbf2".split()
)
"""Arithmetic of the compiler's own library (libgcc.a), which every linker adds."""

OBJECT = SHARED_LIBRARY | _ARITHMETIC | frozenset({"_GLOBAL_OFFSET_TABLE_"})
"""What an object or a static library may need."""

PROGRAM = SHARED_LIBRARY | frozenset(
    "__libc_start_main clock_gettime fclose fopen fprintf fputc fputs fread fwrite fflush printf putc puts putchar"
    " perror readlink stderr stdout strtod strtol strtoll __isoc23_strtol __isoc23_strtoll __printf_chk __fprintf_chk"
    " strtoull fseek ftell feof ferror exit qsort strerror __errno_location".split()
)
"""What the programs in bin/ may need: they read files and print."""

NEEDED = frozenset("libc.so.6 libm.so.6 libpthread.so.0 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1".split())
"""The shared libraries that anything may need."""

LOADERS = frozenset("/lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1".split())
"""What may start a program."""
