"""MkDocs hook: search finds sections by words that people type but the sections do not use."""

from __future__ import annotations

import json
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import BuildError
from mkdocs.plugins import event_priority

SYNONYMS = {
    "before_the_batch.html#augmentation": ["augment", "rotate", "noise", "jitter", "rattle"],
    "before_the_batch.html#weights-and-balance": ["oversampling", "WeightedRandomSampler"],
    "before_the_batch.html#splits": ["random split", "train test split", "stratify"],
    "before_the_batch.html#duplicates-and-diverse-subsets": [
        *("deduplicate", "remove duplicates", "active learning", "farthest point sampling"),
    ],
    "training.html#mixtures": ["weights of data sets", "ConcatDataset", "several datasets"],
    "reference_energies.html#subtract-them": [
        *("normalise", "normalize", "standardise", "standardize", "E0s", "atomrefs"),
    ],
    "coming_from.html#pytorch-geometric": ["PyG Data", "torch_geometric", "InMemoryDataset"],
    "troubleshooting.html#questions": ["lambda", "pickle", "tensorboard", "wandb", "logging"],
    "tutorial.html#6-training": ["early stopping", "checkpoint", "save the model", "validation"],
    "tutorial.html#8-an-ase-calculator": ["calculator", "relax", "molecular dynamics", "inference"],
    "missing_labels.html#masks": ["nan loss", "masked loss"],
    "several_gpus.html": ["DDP", "DistributedDataParallel", "multi-GPU"],
    "resuming.html": ["checkpoint", "restart", "continue training"],
    "batches.html": ["batch size", "out of memory", "dynamic batching"],
}


@event_priority(-100)  # after the search plugin has written its index
def on_post_build(config: MkDocsConfig) -> None:
    """Adds the words to the index of the site.

    Args:
        config: that of the site.

    Raises:
        BuildError: a section does not exist.
    """
    path = Path(config.site_dir) / "search" / "search_index.json"
    index = json.loads(path.read_text())
    entries = {entry["location"]: entry for entry in index["docs"]}
    for section, words in SYNONYMS.items():
        if section not in entries:
            raise BuildError(f"docs/hooks/synonyms.py: no section {section}")
        entries[section]["tags"] = words
    path.write_text(json.dumps(index))
