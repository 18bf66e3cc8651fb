// tfaot/version.h: version of the tfaot headers.
//
// Several prefixes on one include path may each contain these headers. A model's header rejects headers that are too old
// for it, and an installation never replaces newer headers by older ones.
#ifndef TFAOT_VERSION_H_
#define TFAOT_VERSION_H_

// 10000 * major + 100 * minor + patch
#define TFAOT_HEADERS_VERSION 10500

// The C++ types live in the inline namespace tfaot::v2, which changes when their layout or meaning does, so that
// objects compiled against different headers never share code.

#endif  // TFAOT_VERSION_H_
