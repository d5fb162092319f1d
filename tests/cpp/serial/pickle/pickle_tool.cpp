// For scripts that make or check fixtures: what the core makes of a pickle.
//   atompack_pickle show FILE             its items, one a line
//   atompack_pickle write FILE OUT        its value, written again
//   atompack_pickle structure FILE OUT    the structure in it, written again
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "formats/torch_cache/structure.h"
#include "serial/pickle/machine.h"
#include "serial/pickle/show.h"
#include "serial/pickle/writer.h"

namespace {

using atompack::Bytes;

std::vector<char> contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void save(const std::string& path, Bytes bytes) {
  std::ofstream out(path, std::ios::binary);
  out << atompack::as_text(bytes);
}

int run(const std::string& mode, const std::vector<char>& bytes, const std::string& out) {
  const Bytes block = std::as_bytes(std::span(bytes));
  atompack::pickle::Machine machine;
  if (mode == "show") {
    std::cout << atompack::test::show_lines(machine.run(block));
  } else if (mode == "write") {
    std::vector<std::byte> written;
    atompack::pickle::Writer writer(written);
    writer.value(machine.run(block));
    writer.finish();
    save(out, written);
  } else if (mode == "structure") {
    save(out, atompack::torch_cache::encode_structure(atompack::torch_cache::decode_structure(block)));
  } else {
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    return run(argv[1], contents(argv[2]), argc > 3 ? argv[3] : "");
  } catch (const atompack::UnsafePickleError& error) {
    std::printf("unsafe: %s\n", error.what());
  } catch (const atompack::CorruptFileError& error) {
    std::printf("corrupt: %s\n", error.what());
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
  }
  return 1;
}
