"""Description of ASE databases in LMDB."""

from atompack_torch.formats.aselmdb.dataset import AseLmdbDataset
from atompack_torch.formats.molecule_inspection import ParsedEntry

_ENTRY = ParsedEntry(AseLmdbDataset)
open_dataset = _ENTRY.open_dataset
describe = _ENTRY.describe
head = _ENTRY.head
verify = _ENTRY.verify
statistics = _ENTRY.statistics
