"""Run the code cells of a notebook in order, without a kernel; check the numbers in its texts and its stored output.

A text states a result in bold, with the expression that gives it in a comment that is not shown:
`**0.62**<!-- f"{cosine(a, b):.2f}" -->`. Store the output of changed cells and the values of these expressions by

    python tests/notebooks.py docs/tutorial/*.ipynb
"""

import io
import json
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

CLAIM = re.compile(r"\*\*([^*\n]+)\*\*<!-- (.+?) -->")
VARIES = "varies"  # tag of cells whose output differs a little between processors


class Run(NamedTuple):
    """What came of a notebook.

    notebook (Dict[str, Any]): With new outputs and values.
    problems (List[str]): Where they differ from the stored ones.
    n_claims (int): Statements checked.
    """

    notebook: Dict[str, Any]
    problems: List[str]
    n_claims: int


def run_notebook(path: Path) -> Run:
    """path (Path): A notebook.
    RETURNS (Run): After all cells.
    """
    notebook = json.loads(path.read_text(encoding="utf8"))
    space: Dict[str, Any] = {"__name__": "__main__"}
    problems: List[str] = []
    n_claims = 0
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            printed = _execute(text, f"{path.name}, {cell['id']}", space)
            is_same = printed == "".join(line for output in cell["outputs"] for line in output["text"])
            if not is_same and VARIES not in cell["metadata"].get("tags", []):
                problems.append(f"{path.name}, {cell['id']} prints\n{printed}")
            cell["outputs"] = _as_outputs(printed)
        else:
            claims = [(claim[1], str(eval(claim[2], space))) for claim in CLAIM.finditer(text)]
            n_claims += len(claims)
            problems += [f"{path.name} says {stated}, but it is {found}" for stated, found in claims if stated != found]
            values = iter(claims)
            filled = CLAIM.sub(lambda claim, values=values: f"**{next(values)[1]}**<!-- {claim[2]} -->", text)
            cell["source"] = filled.splitlines(keepends=True)
    return Run(notebook, problems, n_claims)


def _execute(source: str, name: str, space: Dict[str, Any]) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(source, name, "exec"), space)
    return printed.getvalue()


def _as_outputs(printed: str) -> List[Dict[str, Any]]:
    return [{"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)}] if printed else []


def write_notebook(notebook: Dict[str, Any], path: Path) -> None:
    """notebook (Dict[str, Any]): Its content. path (Path): The file."""
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        found = run_notebook(Path(argument))
        write_notebook(found.notebook, Path(argument))
        print(f"{argument}: {found.n_claims} statements, {len(found.problems)} changed")
