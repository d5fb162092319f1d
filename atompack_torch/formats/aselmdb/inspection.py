"""Description of ASE databases in LMDB."""

from atompack_torch.formats.aselmdb.dataset import AseLmdbDataset
from atompack_torch.formats.aselmdb.rows import is_pickled
from atompack_torch.formats.molecule_inspection import ParsedEntry
from atompack_torch.formats.paths import Place

_ENTRY = ParsedEntry(AseLmdbDataset)
open_dataset = _ENTRY.open_dataset
describe = _ENTRY.describe
head = _ENTRY.head
verify = _ENTRY.verify
statistics = _ENTRY.statistics


def can_open(place: Place) -> bool:
    """Returns False for LMDB files of pickles, which ``convert`` reads."""
    return not is_pickled(place.path)
