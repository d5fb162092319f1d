#include "io/fetch/http/ca_file.h"

#include <curl/curl.h>
#include <unistd.h>

#include <cstdlib>

namespace atompack::io::fetch::http {
namespace {

bool is_readable(const char* path) { return path != nullptr && *path != 0 && ::access(path, R_OK) == 0; }

}  // namespace

std::string find_ca_file(const std::string& chosen) {
  if (const char* named = std::getenv("SSL_CERT_FILE"); named != nullptr && *named != 0) return named;
  if (!chosen.empty()) return chosen;
  const curl_version_info_data* const info = curl_version_info(CURLVERSION_NOW);
  if (info->age >= CURLVERSION_SEVENTH && is_readable(info->cainfo)) return info->cainfo;
  for (const char* path :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (is_readable(path)) return path;
  }
  return "";
}

}  // namespace atompack::io::fetch::http
