#include "checking_visitor.h"
#include "formats/atp/header.h"
#include "formats/atp/record.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

atp::Header header_for(uint8_t flags, Bytes schema) {
  atp::Header header;
  header.record_format = (flags & 1) != 0 ? 3 : 2;
  header.n_molecules = 1;
  header.schema_length = schema.size();
  return header;
}

void read(ByteCursor input) {
  const auto flags = input.read_le<uint8_t>("flags");
  const Bytes blob = input.take(input.read_le<uint16_t>("schema length"), "schema");
  const Bytes record = input.take(input.remaining(), "record");
  const atp::RecordDecoder decoder(atp::decode_schema(blob, header_for(flags, blob)));
  require(decoder.declared().fields.size() <= blob.size() / 13, "fields are borne out by bytes");
  if (record.size() < sizeof(uint32_t)) return;
  const auto n_atoms = load_le<uint32_t>(record.data());
  CheckingVisitor visitor(decoder.declared(), record);
  decoder.visit(record, n_atoms, visitor);
  require(decoder.min_bytes(n_atoms) <= record.size(), "a record that is read has its least bytes");
}

}  // namespace

void read_record(Bytes input) {
  allowing_damage([&] { read(ByteCursor(input)); });
}

}  // namespace atompack::fuzz
