"""Description of extended XYZ files."""

from atompack_torch.datasets.extxyz import ExtxyzDataset
from atompack_torch.inspection.parsed_files import ParsedEntry

_ENTRY = ParsedEntry(ExtxyzDataset)
open_dataset = _ENTRY.open_dataset
describe = _ENTRY.describe
head = _ENTRY.head
verify = _ENTRY.verify
statistics = _ENTRY.statistics
