"""Definitions as the code that a reader would write or read."""

import ast
from typing import List, Optional, Union

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
LINE_WIDTH = 88


def write_function(function: Function, *, name: Optional[str] = None, is_method: bool = False) -> str:
    """function (Function): The definition.
    name (Optional[str]): Name to write instead of its own.
    is_method (bool): Leave the first parameter out.
    RETURNS (str): The signature, one parameter a line if it is long.
    """
    parameters = _parameters(function.args, n_skipped=int(is_method and not _is_static(function)))
    result = f" -> {_bare(function.returns)}" if function.returns and function.name != "__init__" else ""
    shown = name or function.name
    line = f"{shown}({', '.join(parameters)}){result}"
    if len(line) <= LINE_WIDTH:
        return line
    return "\n".join([f"{shown}(", *(f"    {parameter}," for parameter in parameters), f"){result}"])


def write_class(definition: ast.ClassDef, *, name: str) -> str:
    """definition (ast.ClassDef): The class.
    name (str): Name that it is imported by.
    RETURNS (str): How it is called; its fields, where it is a dataclass or a named tuple.
    """
    makers = [node for node in definition.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    if makers:
        return f"class {write_function(makers[0], name=name, is_method=True)}"
    bases = ", ".join(ast.unparse(base) for base in definition.bases)
    fields = [f"    {ast.unparse(node)}" for node in definition.body if isinstance(node, ast.AnnAssign)]
    head = f"class {name}({bases})" if bases else f"class {name}"
    return "\n".join([f"{head}:", *fields]) if fields else head


def decorators(function: Function) -> List[str]:
    """RETURNS (List[str]): Such as property, classmethod or staticmethod."""
    return [ast.unparse(node) for node in function.decorator_list]


def _is_static(function: Function) -> bool:
    return "staticmethod" in decorators(function)


def _parameters(arguments: ast.arguments, *, n_skipped: int) -> List[str]:
    """Each parameter with its annotation and default; `*` where keyword-only parameters begin."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    written = [_parameter(*pair) for pair in zip(positional, defaults)][n_skipped:]
    if arguments.vararg:
        written.append(f"*{_parameter(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        written.append("*")
    written += [_parameter(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return [*written, f"**{_parameter(arguments.kwarg, None)}"] if arguments.kwarg else written


def _parameter(argument: ast.arg, default: Optional[ast.expr]) -> str:
    annotation = f": {_bare(argument.annotation)}" if argument.annotation else ""
    if default is None:
        return argument.arg + annotation
    return f"{argument.arg}{annotation}{' = ' if annotation else '='}{ast.unparse(default)}"


def _bare(annotation: ast.expr) -> str:
    """Without the quotes around the name of a class that is defined later."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation)
