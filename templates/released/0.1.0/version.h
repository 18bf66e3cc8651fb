// tfaot/version.h: version of the tfaot headers.
//
// Several prefixes on one include path may each bring these headers; a model's header refuses those that are too old
// for it, and an installation never replaces newer ones by older ones.
#ifndef TFAOT_VERSION_H_
#define TFAOT_VERSION_H_

// 10000 * major + 100 * minor + patch
#define TFAOT_HEADERS_VERSION 10400

// The C++ types live in the inline namespace tfaot::v2, which changes when their layout or meaning does, so that
// objects compiled against different headers never share code.

#endif  // TFAOT_VERSION_H_
