"""Build the documentation site, with warnings as errors. It opens from the disk, without a server or a network.

pip install -c constraints.txt -e ".[docs]"
python docs/site/build.py [OUTPUT]
"""

import argparse
import sys
import tempfile
from pathlib import Path

from pages import ROOT, stage

HERE = Path(__file__).parent


def build(output: Path) -> int:
    """output (Path): Folder of the site.
    RETURNS (int): 0, or the exit code of Sphinx: a broken link, a missing page and a page without a place in the
        navigation are errors.
    """
    from sphinx.cmd.build import build_main

    with tempfile.TemporaryDirectory() as staged:
        stage(Path(staged))
        strict = ["--fail-on-warning", "--keep-going", "--quiet"]
        return build_main([*strict, "-d", f"{staged}/.doctrees", "-c", str(HERE), staged, str(output)])


def main() -> None:
    """Read the arguments, build, and say where the site is."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("output", nargs="?", type=Path, default=ROOT / "build" / "site", help="Folder of the site")
    output = parser.parse_args().output
    code = build(output)
    if code == 0:
        print(f"The site is in {output}: open {output / 'index.html'}.")
    sys.exit(code)


if __name__ == "__main__":
    main()
