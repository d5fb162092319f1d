// Decodes one hand-made record.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/atp/atp_bytes.h"
#include "formats/atp/collecting_visitor.h"
#include "formats/atp/record.h"

namespace atompack::test {

inline atp::RecordDecoder decoder_for(const std::vector<EntryFields>& entries, uint8_t positions_tag = 4) {
  const ByteString blob = schema(entries, positions_tag);
  atp::Header header = fresh_header();
  header.record_format = positions_tag == 7 ? 3 : 2;
  header.n_molecules = 1;
  header.schema_length = blob.size();
  return atp::RecordDecoder(atp::decode_schema(blob.bytes(), header));
}

inline CollectingVisitor visit(const atp::RecordDecoder& decoder, const ByteString& bytes) {
  CollectingVisitor visitor;
  decoder.visit(bytes.bytes(), load_le<uint32_t>(bytes.bytes().data()), visitor);
  return visitor;
}

// The only field of a record of `n_atoms`, read without and with a schema that lists it: both must agree.
inline SeenField only_field(uint32_t n_atoms, const ByteString& stored, const EntryFields& entry) {
  const CollectingVisitor bare = visit(decoder_for({}), record(n_atoms, {stored}));
  const CollectingVisitor listed = visit(decoder_for({entry}), record(n_atoms, {stored}));
  EXPECT_EQ(bare.fields.size(), 1U);
  EXPECT_EQ(listed.fields.size(), 1U);
  const SeenField& a = bare.fields.at(0);
  const SeenField& b = listed.fields.at(0);
  EXPECT_EQ(a.declaration, -1);
  EXPECT_EQ(b.declaration, 0);
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.row_shape, b.row_shape);
  EXPECT_EQ(a.data, b.data);
  EXPECT_EQ(a.fault.empty(), b.fault.empty());
  return a;
}

}  // namespace atompack::test
