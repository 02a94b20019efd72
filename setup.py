"""What pyproject.toml cannot describe: the C extensions, the README, and files that are copied into a wheel."""

import re
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
# Configs that `elmo init-config` writes: in the repository beside the package, in a wheel inside of it.
CONFIGS = ("pretrain_en_elmo_sm.cfg", "pretrain_small_text.cfg", "adapt.cfg")
MATH_FLAGS = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros"]
FLAGS = ["/O2"] if sys.platform == "win32" else [*MATH_FLAGS, "-ffinite-math-only"]
# NaN must stay NaN. MSVC has no vector types: clang-cl compiles the kernel, or torch's operations are used.
# Fused multiply-adds wherever the processor has them: AVX2, AVX-512 and NEON give the same bits.
KERNEL_FLAGS = ["/std:c++17", "/O2"] if sys.platform == "win32" else ["-std=c++17", *MATH_FLAGS, "-ffp-contract=fast"]


class BuildWithConfigs(build_py):
    """Also copy configs, and model cards beside the weights; an editable installation reads them where they are."""

    def run(self) -> None:
        """Build as usual, then copy."""
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / "spacy_elmo"
        for folder in (package / "models").iterdir():
            card = read_without_links(ROOT / "docs" / f"{folder.name}.md")
            (folder / "README.md").write_text(card, encoding="utf8")
        self.mkpath(str(package / "configs"))
        for name in CONFIGS:
            self.copy_file(str(ROOT / "configs" / name), str(package / "configs" / name))


def read_without_links(path: Path) -> str:
    """RETURNS (str): A page; its links into the repository become plain text, since the files are not there."""
    return re.sub(r"!?\[([^\]]*)\]\((?!https?://|#)[^)]*\)", r"\1", path.read_text(encoding="utf8"))


setup(
    long_description=read_without_links(ROOT / "README.md"),
    long_description_content_type="text/markdown",
    cmdclass={"build_py": BuildWithConfigs},
    ext_modules=[
        # Optional: without a compiler torch's own operations are used. One build serves all Pythons from 3.10 on.
        *(
            Extension(
                f"spacy_elmo.{name.replace('/', '.')}",
                sources=[f"spacy_elmo/{name}{suffix}" for suffix in suffixes],
                depends=["spacy_elmo/inference/_kernel.h"],
                define_macros=[("Py_LIMITED_API", "0x030A0000")],
                extra_compile_args=flags,
                py_limited_api=True,
                optional=True,
            )
            for name, suffixes, flags in (
                ("inference/_kernel", [".cpp", "_avx2.cpp", "_avx512.cpp", "_avx512_bf16.cpp"], KERNEL_FLAGS),
                ("bilm/_recurrence", [".c"], FLAGS),
            )
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
    zip_safe=False,
)
