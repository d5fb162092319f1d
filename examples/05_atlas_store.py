"""Trains a small model on ocean profiles from an ATLAS store.

    python examples/05_atlas_store.py [STORE] [--epochs 20]

Without a store it first makes one with synthetic casts: temperature and salinity on 50 levels,
with gaps, and place and time of each. The model gets the upper 4 m, latitude and day, and predicts
the temperature of all levels below. At the end it prints the errors on test casts, compared with
those of the mean profile and of a linear fit, and plots them.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import atompack_torch as apt

N_LEVELS, N_SEEN = 50, 4
DEPTHS = 3.0 * 1.09 ** torch.arange(N_LEVELS)  # m, from 3 to about 200
ARRAYS = ["latitude", "day", "temperature"]
LEARNING_RATE = 3e-3

Batch = dict[str, Tensor]


def cast(generator: torch.Generator) -> Batch:
    """Makes a profile: a warm mixed layer above a thermocline, depending on season and latitude."""
    noise = partial(torch.randn, generator=generator)
    latitude = 60 * torch.rand((), generator=generator)
    day = 365 * torch.rand((), generator=generator)
    summer = torch.sin(2 * torch.pi * (day - 80) / 365) * latitude / 40
    surface = 28 - 0.3 * latitude + 4 * summer + 0.7 * noise(())
    deep = 12 - 0.12 * latitude + 0.3 * noise(())
    mixed = (45 - 25 * summer + 4 * noise(())).clamp(min=5)  # m
    width = 8 + 0.3 * mixed
    share = torch.sigmoid((mixed - DEPTHS) / width)
    temperature = deep + (surface - deep) * share + 0.1 * noise((N_LEVELS,))
    salinity = 34.5 + 0.02 * (temperature - deep) + 0.02 * noise((N_LEVELS,))
    gaps = torch.rand(N_LEVELS, generator=generator) < 0.03
    return {
        "latitude": latitude,
        "day": day,
        "temperature": temperature.masked_fill(gaps, torch.nan),
        "salinity": salinity.masked_fill(gaps, torch.nan),
    }


def make(path: Path, n: int, seed: int) -> None:
    """Writes a store of casts, one dataset each; float32, NaN in gaps."""
    generator = torch.Generator().manual_seed(seed)
    start = time.perf_counter()
    with apt.AtlasStore(path, "x") as store:
        for i in range(n):
            name = f"cast-{i:05d}"
            store.create_dataset(name)
            store.set_attr(name, "ship", ["Pelagia", "Sonne", "Meteor"][i % 3])
            for array, values in cast(generator).items():
                dims = ["depth"] if values.ndim else []
                store.define_array(name, array, "float32", values.shape, dims, fill_value=torch.nan)
                store.write(name, array, values)
    print(f"{path}: {n} casts written in {time.perf_counter() - start:.1f} s")


class Model(nn.Module):
    """Maps the upper levels, latitude and season to the temperatures of all levels, in °C."""

    mean: Tensor
    spread: Tensor

    def __init__(self, mean: Tensor, spread: Tensor, width: int = 96) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)
        self.layers = nn.Sequential(
            nn.Linear(N_SEEN + 3, width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.SiLU(),
            nn.Linear(width, N_LEVELS),
        )

    def features(self, batch: Batch) -> Tensor:
        """Returns the inputs (B, N_SEEN + 3); gaps count as the mean."""
        seen = ((batch["temperature"] - self.mean) / self.spread)[:, :N_SEEN].nan_to_num(0.0)
        season = 2 * torch.pi * batch["day"] / 365
        where = torch.stack([batch["latitude"] / 30 - 1, season.sin(), season.cos()], dim=1)
        return torch.cat([seen, where], dim=1)

    def forward(self, batch: Batch) -> Tensor:
        """Returns (B, N_LEVELS) °C."""
        return self.mean + self.spread * self.layers(self.features(batch))


def linear_fit(model: Model, known: Batch, asked: Batch) -> Tensor:
    """Returns (B, N_LEVELS) °C by least squares from the same features; gaps count as the mean."""
    measured = torch.where(known["temperature"].isnan(), model.mean, known["temperature"])
    inputs = nn.functional.pad(model.features(known), (0, 1), value=1.0)
    weights = torch.linalg.lstsq(inputs, measured).solution
    return nn.functional.pad(model.features(asked), (0, 1), value=1.0) @ weights


def errors(predicted: Tensor, measured: Tensor) -> Tensor:
    """Returns absolute errors of the levels that are not inputs, NaN in gaps."""
    return (predicted - measured)[:, N_SEEN:].abs()


def train(model: Model, loader: DataLoader[Batch], validation: Batch, epochs: int) -> list[float]:
    """Fits the model; returns the mean absolute errors (°C) on the validation set."""
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    curve, start = [], time.perf_counter()
    for epoch in range(1, epochs + 1):
        for batch in loader:
            loss = errors(model(batch), batch["temperature"]).nanmean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            curve.append(errors(model(validation), validation["temperature"]).nanmean().item())
        rate = epoch * len(loader.dataset) / (time.perf_counter() - start)
        print(
            f"epoch {epoch:3}/{epochs}  training {loss.item():.3f} °C"
            f"  validation {curve[-1]:.3f} °C  {rate:,.0f} casts/s",
            flush=True,
        )
    return curve


def draw(test: Batch, guesses: dict[str, Tensor], path: Path) -> None:
    """Plots two casts with their predictions, and the errors by depth."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.5), sharey=True, layout="constrained")
    for row, axis in enumerate(axes[:2]):
        axis.plot(test["temperature"][row], DEPTHS, "k.", label="measured")
        for label, guess in guesses.items():
            axis.plot(guess[row, N_SEEN:], DEPTHS[N_SEEN:], label=label)
        axis.set(xlabel="temperature / °C", title=f"{test['latitude'][row]:.0f}° N")
    for label, guess in guesses.items():
        by_depth = errors(guess, test["temperature"]).nanmean(dim=0)
        axes[2].plot(by_depth, DEPTHS[N_SEEN:], label=label)
    axes[2].set(xlabel="mean absolute error / °C", xlim=(0, None))
    axes[0].set(ylabel="depth / m")
    axes[0].invert_yaxis()
    axes[0].legend()
    figure.savefig(path, dpi=120)


def parse() -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = partial(parser.add_argument, help="(default: %(default)s)")
    add("path", nargs="?", type=Path, help="a store that an earlier run made")
    add("--casts", type=int, default=4000, help="to make (default: %(default)s)")
    add("--epochs", type=int, default=20)
    add("--batch-size", type=int, default=64)
    add("--workers", type=int, default=0, help="of the DataLoader (default: %(default)s)")
    add("--seed", type=int, default=0)
    add("--out", type=Path, default=Path("build/demo"), help="folder (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    """Makes, reads, trains, tests."""
    options = parse()
    torch.manual_seed(options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.path or options.out / f"casts-{options.casts}-{options.seed}.atlas"
    if not path.exists():
        make(path, options.casts, options.seed)

    store = apt.AtlasStore(path)
    warm = store.select("temperature", min=25.0)  # by stored statistics, without reading values
    print(f"{len(store)} casts of {', '.join(store.arrays)}; {len(warm)} reach 25 °C")

    dataset = apt.AtlasDataset(store, ARRAYS)
    parts = dataset.split([0.8, 0.1, 0.1], seed=options.seed)
    validation, test = (part[:] for part in parts[1:])
    # Every batch is one scan per column: no collate_fn, no loop over datasets.
    loader = DataLoader(
        parts[0], options.batch_size, shuffle=True, num_workers=options.workers, drop_last=True
    )

    known = parts[0][:]
    mean = known["temperature"].nanmean(dim=0)
    spread = (known["temperature"] - mean).square().nanmean(dim=0).sqrt()
    model = Model(mean, spread)
    train(model, loader, validation, options.epochs)

    with torch.no_grad():
        predicted = model(test)
    print(f"\nbelow {DEPTHS[N_SEEN - 1]:.0f} m on {len(predicted)} casts kept aside:")
    guesses = {
        "model": predicted,
        "linear fit": linear_fit(model, known, test),
        "mean profile": mean.expand_as(predicted),
    }
    for label, guess in guesses.items():
        error = errors(guess, test["temperature"]).nanmean().item()
        print(f"  {label:12}  {error:.3f} °C")
    picture = options.out / "casts.png"
    draw(test, guesses, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
