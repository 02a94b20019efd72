"""Packaging: names, requirements and entry points. Nothing is imported from the package itself."""

import re
import sys
from pathlib import Path
from typing import Dict, List

from setuptools import Extension, find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
# Configs that `elmo init-config` writes: in the repository beside the package, in a wheel inside of it.
CONFIGS = ("pretrain_en_elmo_sm.cfg", "pretrain_small_text.cfg", "adapt.cfg")
PACKAGE_DATA = ["py.typed", "models/*/*", "inference/*.pyi", "weights/*.json", "explorer/static/*"]


class BuildWithConfigs(build_py):
    """Also copy configs into the package, and model cards beside the weights; an editable installation reads the
    configs where they are."""

    def run(self) -> None:
        """Build as usual, then copy."""
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / "spacy_elmo"
        for folder in (package / "models").iterdir():
            card = read_without_links(ROOT / "docs" / f"{folder.name}.md")
            (folder / "README.md").write_text(card, encoding="utf8")
        target = package / "configs"
        self.mkpath(str(target))
        for name in CONFIGS:
            self.copy_file(str(ROOT / "configs" / name), str(target / name))


def read_about() -> Dict[str, str]:
    """Run `about.py` by itself: importing the package would need torch and spaCy."""
    about: Dict[str, str] = {}
    exec((ROOT / "spacy_elmo" / "about.py").read_text(encoding="utf8"), about)
    return about


def read_without_links(path: Path) -> str:
    """RETURNS (str): A page; its links into the repository become plain text, since the files are not there."""
    return re.sub(r"\[([^\]]*)\]\((?!https?://|#)[^)]*\)", r"\1", path.read_text(encoding="utf8"))


def make_extensions() -> List[Extension]:
    """Optional: without a compiler torch's own operations are used. One build serves all Pythons from 3.10 on."""
    is_msvc = sys.platform == "win32"
    flags = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-ffinite-math-only", "-fno-signed-zeros"]
    return [
        Extension(
            "spacy_elmo.inference._cell",
            ["spacy_elmo/inference/_cell.c"],
            define_macros=[("Py_LIMITED_API", "0x030A0000")],
            extra_compile_args=["/O2"] if is_msvc else flags,
            py_limited_api=True,
            optional=True,
        )
    ]


def setup_package() -> None:
    """Describe the distribution to setuptools."""
    about = read_about()
    setup(
        name=about["__title__"],
        version=about["__version__"],
        description=about["__summary__"],
        license=about["__license__"],
        license_files=["LICENSE"],
        author="The spacy-elmo contributors",
        long_description=read_without_links(ROOT / "README.md"),
        long_description_content_type="text/markdown",
        packages=find_packages(include=["spacy_elmo", "spacy_elmo.*"]),
        cmdclass={"build_py": BuildWithConfigs},
        package_data={"spacy_elmo": PACKAGE_DATA},
        ext_modules=make_extensions(),
        options={"bdist_wheel": {"py_limited_api": "cp310"}},
        python_requires=">=3.10",
        install_requires=[
            "spacy>=3.8.13,<3.9",
            "thinc>=8.3.12,<8.4",
            "torch>=2.6",
            "numpy>=1.26",
            "srsly>=2.5.3",
            "safetensors>=0.4.3",
            "h5py>=3.10",
            "typer>=0.16",
            "wasabi>=1.1",
            "tqdm>=4.64",
        ],
        extras_require={
            "plot": ["matplotlib>=3.8"],
            "zstd": ["zstandard>=0.22"],
            "datasets": ["datasets>=2.19"],
            "tensorboard": ["tensorboard>=2.15"],
            "onnx": ["onnx>=1.16", "onnxruntime>=1.17"],
            "analysis": ["scikit-learn>=1.5", "matplotlib>=3.8"],
            "docs": ["furo>=2025.9", "myst-parser>=4", "sphinx>=8.1"],
            "explore": ["starlette>=0.40", "uvicorn>=0.30"],
            "index": ["faiss-cpu>=1.9"],
            "test": [
                "build",
                "faiss-cpu>=1.9",
                "furo>=2025.9",
                "hypothesis",
                "matplotlib>=3.8",
                "mypy",
                "myst-parser>=4",
                "onnx>=1.16",
                "onnxruntime>=1.17",
                "playwright>=1.49",
                "pytest>=8",
                "pytest-timeout",
                "pytest-xdist>=3.5",
                "ruff",
                "scikit-learn>=1.5",
                "setuptools>=77",
                "sphinx>=8.1",
                "starlette>=0.40",
                "types-tqdm",
                "uvicorn>=0.30",
                "zstandard>=0.22",
            ],
        },
        entry_points={
            "spacy_cli": ["elmo = spacy_elmo.cli.plugin:elmo"],
            "spacy_factories": [
                "elmo = spacy_elmo.pipeline.elmo:make_elmo",
                "crf_ner = spacy_elmo.pipeline.crf_ner:make_crf_ner",
                "elmo_surprisal = spacy_elmo.pipeline.surprisal:make_elmo_surprisal",
            ],
            "spacy_architectures": [
                "spacy-elmo.ElmoModel.v1 = spacy_elmo.ml.elmo_model:ElmoModel",
                "spacy-elmo.ElmoListener.v1 = spacy_elmo.ml.listener:build_listener",
                "spacy-elmo.ElmoTok2Vec.v1 = spacy_elmo.ml.owned_tok2vec:ElmoTok2Vec",
                "spacy-elmo.Tok2VecWithElmo.v1 = spacy_elmo.ml.concat:Tok2VecWithElmo",
                "spacy-elmo.ElmoTaskEncoder.v1 = spacy_elmo.ml.task_encoder:ElmoTaskEncoder",
                "spacy-elmo.BiLSTMEncoder.v1 = spacy_elmo.ml.bilstm:BiLSTMEncoder",
                "spacy-elmo.TextCatReduce.v1 = spacy_elmo.ml.textcat_reduce:TextCatReduce",
                "spacy-elmo.CRFTagger.v1 = spacy_elmo.ml.crf_tagger:CRFTagger",
            ],
            "spacy_loggers": [
                "spacy-elmo.LayerWeightsLogger.v1 = spacy_elmo.pipeline.layer_weights_log:LayerWeightsLogger",
            ],
            "spacy_misc": [
                "spacy-elmo.FineTuning.v1 = spacy_elmo.ml.fine_tuning:FineTuning",
                "spacy-elmo.BiLMLoader.v1 = spacy_elmo.ml.loaders:BiLMLoader",
                "spacy-elmo.RandomBiLM.v1 = spacy_elmo.ml.loaders:RandomBiLM",
            ],
            "thinc_schedules": [
                "spacy-elmo.slanted_triangular.v1 = spacy_elmo.ml.schedules:slanted_triangular",
            ],
        },
        project_urls={"Paper": "https://aclanthology.org/N18-1202"},
        keywords=[
            *("spacy", "elmo", "nlp", "natural language processing", "contextual embeddings", "word vectors"),
            *("bidirectional language model", "biLM", "allennlp", "pretraining", "named entity recognition"),
        ],
        classifiers=[
            "Development Status :: 4 - Beta",
            "Intended Audience :: Developers",
            "Environment :: Console",
            "Intended Audience :: Science/Research",
            "Operating System :: OS Independent",
            "Programming Language :: C",
            "Programming Language :: Python :: 3",
            "Programming Language :: Python :: 3 :: Only",
            "Programming Language :: Python :: 3.10",
            "Programming Language :: Python :: 3.11",
            "Programming Language :: Python :: 3.12",
            "Programming Language :: Python :: 3.13",
            "Topic :: Scientific/Engineering :: Artificial Intelligence",
            "Topic :: Text Processing :: Linguistic",
            "Typing :: Typed",
        ],
        zip_safe=False,
    )


if __name__ == "__main__":
    setup_package()
