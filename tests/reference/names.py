"""The builtin fields, and the names that custom properties cannot have without their scope."""

from __future__ import annotations

from typing import NamedTuple


class Builtin(NamedTuple):
    """What the values of a builtin field look like.

    Attributes:
        level: molecule or atom.
        shape: of a row.
        kind: real, flag or text.
        is_result: ASE's calculators have it.
        is_property: ``.atp`` stores it as a custom property.
    """

    level: str
    shape: tuple[int, ...] = ()
    kind: str = "real"
    is_result: bool = False
    is_property: bool = False


BUILTINS = {
    "energy": Builtin("molecule", is_result=True),
    "forces": Builtin("atom", (3,), is_result=True),
    "charges": Builtin("atom", is_result=True),
    "velocities": Builtin("atom", (3,)),
    "cell": Builtin("molecule", (3, 3)),
    "stress": Builtin("molecule", (3, 3), is_result=True),
    "dipole": Builtin("molecule", (3,), is_result=True, is_property=True),
    "pbc": Builtin("molecule", (3,), "flag"),
    "name": Builtin("molecule", (), "text"),
}
STRUCTURE = ("positions", "atomic_numbers", "batch", "ptr", "n_atoms", "index")
FEATURES = ("features", "edge_index", "edge_shift", "edge_vector", "source")
DERIVATIVES = (
    "radial_center_idx",
    "radial_neighbor_idx",
    "radial_dG_drij",
    "radial_neighbor_typespin",
    "angular_center_idx",
    "angular_neighbor_j_idx",
    "angular_neighbor_k_idx",
    "angular_grads_i",
    "angular_grads_j",
    "angular_grads_k",
    "angular_triplet_typespin",
)
CANONICAL = frozenset((*STRUCTURE, *BUILTINS, *FEATURES, *DERIVATIVES))
ALIASES = {"pos": "positions", "z": "atomic_numbers", "natoms": "n_atoms"}


def reserved_names() -> frozenset[str]:
    """Canonical names and the public attributes of both classes, without the yielding aliases."""
    import atompack_torch as apt

    attributes = {*dir(apt.MoleculeBatch), *dir(apt.Molecule)}
    public = {name for name in attributes if not name.startswith("_")}
    return frozenset((CANONICAL | public) - ALIASES.keys())
