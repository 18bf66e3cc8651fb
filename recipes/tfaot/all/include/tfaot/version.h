// tfaot/version.h: version of the tfaot headers, and what they need of the compiler. The other C++ headers include it first.
//
// Several prefixes on one include path may each contain these headers. A model's header rejects headers that are too old
// for it, and an installation never replaces newer headers by older ones.
#ifndef TFAOT_VERSION_H_
#define TFAOT_VERSION_H_

// A missing header ends the compilation here. After #error, compilers would go on to a thousand errors of C++17's library.
#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#include "tfaot needs C++17 or newer: compile with -std=c++17"
#endif

// 10000 * major + 100 * minor + patch
#define TFAOT_HEADERS_VERSION 10700

// The C++ types live in the inline namespace tfaot::v2, which changes when their layout or meaning does, so that
// objects compiled against different headers never share code. Nor do those compiled without exceptions, in which
// an Error that would be thrown ends the program: calls named try_... return it instead, as an Outcome.
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define TFAOT_EXCEPTIONS 1
#define TFAOT_NAMESPACE v2
#else
#define TFAOT_EXCEPTIONS 0
#define TFAOT_NAMESPACE v2_without_exceptions
#endif

#endif  // TFAOT_VERSION_H_
