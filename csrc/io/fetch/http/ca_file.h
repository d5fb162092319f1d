// The file with the certificates that are trusted.
#pragma once

#include <string>

namespace atompack::io::fetch::http {

// Returns SSL_CERT_FILE, else `chosen`, else libcurl's own default if it exists, else one of the known paths; empty if
// there is none.
std::string find_ca_file(const std::string& chosen);

}  // namespace atompack::io::fetch::http
