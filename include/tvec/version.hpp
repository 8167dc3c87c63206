/// \file
/// The version of these headers, for the preprocessor.
///
/// Versions are MAJOR.MINOR.PATCH, as semver.org defines them. Programs written for 0.6 compile
/// with each later 0.x, but for what they use of extra/, which a MINOR version may change
/// before 1.0. A PATCH changes nothing of the interface.
#pragma once

#define TVEC_VERSION_MAJOR 0         ///< 0: extra/ may still change
#define TVEC_VERSION_MINOR 6         ///< additions; until 1.0 also changes of extra/
#define TVEC_VERSION_PATCH 0         ///< corrections
#define TVEC_VERSION_STRING "0.6.0"  ///< the three, with dots

/// The version as one number: `#if TVEC_VERSION >= TVEC_MAKE_VERSION(0, 6, 0)`.
#define TVEC_VERSION TVEC_MAKE_VERSION(TVEC_VERSION_MAJOR, TVEC_VERSION_MINOR, TVEC_VERSION_PATCH)
/// Makes the number of a version.
#define TVEC_MAKE_VERSION(major, minor, patch) (1000000 * (major) + 1000 * (minor) + (patch))
