"""Description of extended XYZ files."""

from atompack_torch.formats.extxyz.dataset import ExtxyzDataset
from atompack_torch.formats.molecule_inspection import ParsedEntry

_ENTRY = ParsedEntry(ExtxyzDataset)
open_dataset = _ENTRY.open_dataset
describe = _ENTRY.describe
head = _ENTRY.head
verify = _ENTRY.verify
statistics = _ENTRY.statistics
