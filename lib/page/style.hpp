// How the page looks, and its only script.
#pragma once

namespace refit::page {

/// For a light and a dark screen and for paper; nothing in it is loaded.
extern const char* const kStyle;

/// Makes a link of the embedded result. Everything can be seen without it.
extern const char* const kScript;
/// "sha256-..." of kScript, which a browser compares: no other script runs in the page.
extern const char* const kScriptDigest;

}  // namespace refit::page
