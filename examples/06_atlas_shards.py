"""Trains a small image classifier from a dataset of Atlas shards.

    python examples/06_atlas_shards.py [--images 12000] [--epochs 8]

First it draws noisy images of six shapes and writes them as shards: dicts of an array, a label and
a string, in compressed blocks. Then it trains on them, with blocks in random order and mixed in
windows, so that each block is read once per epoch. At the end it prints the accuracy on test
images, compared with those of simple predictors, and plots some of them.
"""

import argparse
import shutil
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import atompack_torch as apt

SIZE = 24  # pixels
SHAPES = ("disc", "ring", "square", "frame", "cross", "bar")
BLOCK, WINDOW = 100, 16  # images per block; blocks per window
LEARNING_RATE = 1e-2


def draw_shape(rng: np.random.Generator, shape: str) -> np.ndarray[Any, Any]:
    """Draws (1, SIZE, SIZE) uint8: one shape, rotated, at a random place, with noise."""
    radius, angle = rng.uniform(4, 8), rng.uniform(0, np.pi)
    x, y = np.mgrid[:SIZE, :SIZE] - rng.uniform(9, SIZE - 9, size=(2, 1, 1))
    u, v = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    far, wide = np.hypot(u, v), np.maximum(abs(u), abs(v))
    thick = radius / 3
    inside = {
        "disc": far < radius,
        "ring": abs(far - radius + thick) < thick / 2,
        "square": wide < radius * 0.8,
        "frame": abs(wide - radius * 0.8 + thick) < thick / 2,
        "cross": (wide < radius) & (np.minimum(abs(u), abs(v)) < thick / 2),
        "bar": (abs(u) < radius) & (abs(v) < thick / 2),
    }[shape]
    image = rng.uniform(20, 60) + rng.uniform(60, 140) * inside + rng.normal(0, 45, x.shape)
    return image.clip(0, 255).astype(np.uint8)[None]


def examples(n: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yields the examples of the shards."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        label = int(rng.integers(len(SHAPES)))
        image = draw_shape(rng, SHAPES[label])
        yield {"image": image, "label": label, "caption": f"{SHAPES[label]} {i}"}


def ensure(root: Path, n: int, seed: int) -> Path:
    """Writes the shards unless they exist: existing ones are complete."""
    if not root.exists():
        start = time.perf_counter()
        root.parent.mkdir(parents=True, exist_ok=True)
        with apt.ShardWriter(root, shard_size=4000, block_size=BLOCK) as writer:
            for example in examples(n, seed):
                writer.write(example)
        print(f"{root}: {n:,} images drawn and written in {time.perf_counter() - start:.1f} s")
    return root


def network() -> nn.Module:
    """Maps (B, 1, SIZE, SIZE) uint8 to (B, shapes) logits by a few convolutions."""

    def step(width: int, next_width: int) -> list[nn.Module]:
        halve = nn.Conv2d(width, next_width, 3, stride=2, padding=1)
        return [halve, nn.BatchNorm2d(next_width), nn.ReLU()]

    body = [*step(1, 16), *step(16, 32), *step(32, 64), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(64 * (SIZE // 8) ** 2, len(SHAPES)))


def pixels(batch: dict[str, Any]) -> Tensor:
    """Returns images as floats around 0."""
    return batch["image"].float() / 128 - 1


@torch.no_grad()
def predict(model: nn.Module, batches: Iterable[dict[str, Any]]) -> tuple[Tensor, Tensor]:
    """Returns the predicted and the true labels."""
    model.eval()
    found = [(model(pixels(batch)).argmax(1), batch["label"]) for batch in batches]
    model.train()
    predicted, labels = zip(*found, strict=True)
    return torch.cat(predicted), torch.cat(labels)


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Returns the fraction of correct labels."""
    return float((predicted == labels).float().mean())


def train(
    model: nn.Module, loader: apt.Loader, validation: Iterable[dict[str, Any]], epochs: int
) -> list[float]:
    """Fits the model; returns the accuracy on validation images after each epoch."""
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, epochs=epochs, steps_per_epoch=len(loader)
    )
    curve, waited, start = [], 0.0, time.perf_counter()
    for epoch in range(1, epochs + 1):
        asked, images = time.perf_counter(), 0
        for batch in loader:
            waited += time.perf_counter() - asked
            images += len(batch["label"])
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pixels(batch)), batch["label"]).backward()
            optimizer.step()
            schedule.step()
            asked = time.perf_counter()
        curve.append(accuracy(*predict(model, validation)))
        rate = epoch * images / (time.perf_counter() - start)
        print(f"epoch {epoch}/{epochs}  accuracy {curve[-1]:.1%}  {rate:,.0f} images/s", flush=True)
    share = waited / (time.perf_counter() - start)
    print(f"{share:.2%} of the time waited for data")
    return curve


def nearest_mean(train_batches: Iterable[dict[str, Any]], test: Iterable[dict[str, Any]]) -> float:
    """Returns the accuracy of the class with the nearest mean image."""
    sums, counts = torch.zeros(len(SHAPES), SIZE * SIZE), torch.zeros(len(SHAPES))
    for batch in train_batches:
        sums.index_add_(0, batch["label"], pixels(batch).flatten(1))
        counts += torch.bincount(batch["label"], minlength=len(SHAPES))
    means = sums / counts[:, None]
    hits = [
        torch.cdist(pixels(batch).flatten(1), means).argmin(1) == batch["label"] for batch in test
    ]
    return float(torch.cat(hits).float().mean())


def draw(batch: dict[str, Any], predicted: Tensor, curve: list[float], path: Path) -> None:
    """Plots some images with their predictions, and the accuracy by epoch."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 6, figsize=(9, 5), constrained_layout=True)
    for axis, image, guess, label in zip(
        axes.flat, batch["image"], predicted.tolist(), batch["label"].tolist(), strict=False
    ):
        axis.imshow(image[0], cmap="gray", vmin=0, vmax=255)
        axis.set_title(SHAPES[guess], color="green" if guess == label else "red", fontsize=9)
        axis.set_axis_off()
    figure.suptitle("accuracy after each epoch: " + ", ".join(f"{a:.1%}" for a in curve))
    figure.savefig(path, dpi=110)


def parse() -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = partial(parser.add_argument, help="(default: %(default)s)")
    add("--images", type=int, default=12_000)
    add("--epochs", type=int, default=8)
    add("--batch-size", type=int, default=64)
    add("--seed", type=int, default=0)
    add("--fresh", action="store_true", help="write the shards again")
    add("--out", type=Path, default=Path("build/demo"), help="folder (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    """Writes, reads, trains, tests."""
    options = parse()
    torch.manual_seed(options.seed)
    roots = {name: options.out / f"shapes-{name}-{options.images}" for name in ("train", "test")}
    for k, (root, n) in enumerate(zip(roots.values(), (options.images, 2000), strict=True)):
        if options.fresh:
            shutil.rmtree(root, ignore_errors=True)
        ensure(root, n, 2 * options.seed + k)

    # Only the blocks of the window stay decoded.
    images = apt.ShardDataset(roots["train"], cache_blocks=2 * WINDOW)
    sampler = apt.BlockShuffleSampler(images, window=WINDOW, seed=options.seed)
    loader = apt.Loader(images, options.batch_size, sampler=sampler, drop_last=True)
    test = DataLoader(apt.ShardDataset(roots["test"]), batch_size=500)
    first = next(iter(test))
    shown = ", ".join(f"{k}: {getattr(v, 'shape', v[:2])}" for k, v in first.items())
    print(f"a batch of the test: {shown}")

    model = network()
    curve = train(model, loader, test, options.epochs)
    predicted, labels = predict(model, test)
    print(f"\naccuracy on {len(labels):,} images kept aside")
    print(f"  this model    {accuracy(predicted, labels):.1%}")
    print(f"  nearest mean  {nearest_mean(loader, test):.1%}")
    print(f"  guessing      {1 / len(SHAPES):.1%}")
    picture = options.out / "shapes.png"
    draw(first, predicted, curve, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
