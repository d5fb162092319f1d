"""Names that a batch keeps for itself; a custom property so named needs its scope in front."""

from __future__ import annotations

BUILTINS = ("energy", "forces", "charges", "velocities", "cell", "stress", "pbc", "name")
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
