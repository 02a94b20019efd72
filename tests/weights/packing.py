"""A zip as those of NLPL."""

import zipfile
from pathlib import Path


def zip_hdf5(folder: Path) -> Path:
    path = folder.with_name("model.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("options.json", "weights.hdf5"):
            archive.write(folder / name, name)
    return path
