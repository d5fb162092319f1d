"""Expressions over labels and elements, such as ``energy / n_atoms < -3 and 'Fe' in elements``.

They have the syntax of Python, but are never executed: the syntax tree is checked against a list
of allowed forms and evaluated for a whole block of molecules in one go.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np

from atompack_torch.datasets.selection import operations
from atompack_torch.datasets.selection.blocks import (
    Array,
    Block,
    UnknownFieldError,
    check_known,
    normal,
)
from atompack_torch.datasets.selection.structures import DERIVED, Structures
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTINS

_MAX_LENGTH = 10_000
_MAX_DEPTH = 50
_SIGNS = {"&&": "and", "||": "or", "!": "not", "=": "=="}  # of other languages → here

_OPERATORS: dict[type[ast.AST], str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"},
    **{ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="},
    **{ast.In: "in", ast.NotIn: "not in", ast.And: "and", ast.Or: "or"},
}
# Functions of values, by name.
_FUNCTIONS: dict[str, Callable[..., operations.Value]] = {
    "norm": operations.norm,
    "isnan": operations.is_nan,
    **{
        name: partial(operations.rows_by_structure, name)
        for name in ("max", "min", "mean", "sum", "any", "all")
    },
    **{
        name: partial(operations.elementwise, name, getattr(np, name))
        for name in ("abs", "exp", "log", "sqrt")
    },
    **{
        name: partial(operations.text_test, name, getattr(str, name))
        for name in ("startswith", "endswith")
    },
}
FUNCTIONS = ("has", "field", "count", *_FUNCTIONS)

Evaluator = Callable[[Structures], operations.Value]


class ExpressionError(FieldError):
    """An expression is not understood, or does not suit the data."""


class Expression:
    """A condition on molecules, checked and ready to be evaluated.

    Args:
        text: the expression; see ``filter`` of datasets.

    Raises:
        ExpressionError: it is not understood; the message has the position.
        TypeError: it is not a string.
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"expression: expected str, got {type(text).__name__}")
        self.text = text
        self._names: dict[str, ast.AST] = {}  # → where it is used first
        self._direct: dict[str, ast.AST] = {}  # the same of field(...)
        self._asked: dict[str, ast.AST] = {}  # the same of has(...)
        self._root = self._parsed()
        self._evaluator = self._compiled(self._root, 0)

    @property
    def _needed(self) -> dict[str, ast.AST]:
        """Name of a field → where it is used first."""
        names = {
            needed: node
            for name, node in self._names.items()
            for needed in DERIVED.get(name, (name,))
        }
        return {**self._direct, **names}

    @property
    def needs_structures(self) -> bool:
        """False if only the numbers of atoms are needed."""
        return bool(self._needed or self._asked or self._names.keys() - {"n_atoms"})

    def check(self, known: Collection[str]) -> None:
        """Checks that a dataset has all fields of the expression.

        Args:
            known: names of the fields that it has.

        Raises:
            ExpressionError: there is no such field.
        """
        asked = {name: node for name, node in self._asked.items() if name not in BUILTINS}
        for name, node in {**asked, **self._needed}.items():
            try:
                check_known(_spelled(name, known), known, "", (*DERIVED, *FUNCTIONS))
            except UnknownFieldError as error:
                raise self._error(node, str(error)) from None

    def fields_of(self, known: Collection[str]) -> list[str]:
        """Returns the fields to read, as a dataset spells them; call ``check`` first."""
        names = [_spelled(name, known) for name in {**self._needed, **self._asked}]
        return [name for name in names if name in known or "/" in name]

    def evaluate(self, block: Block) -> Array:
        """Evaluates the condition.

        Args:
            block: B molecules.

        Returns:
            (B,) bool.

        Raises:
            ExpressionError: an operation does not suit the type of a field.
        """
        found = self._evaluator(Structures(block))
        n = len(block.ptr) - 1
        if not isinstance(found, operations.Truth):
            raise self._error(self._root, f"expected a condition, got {found.kind}")
        if found.ptr is not None:
            raise self._error(
                self._root,
                "expected one condition per molecule, got several: use any(...) or all(...)",
            )
        return np.broadcast_to(found.data, (n,)).astype(bool)

    # Parsing

    def _parsed(self) -> ast.expr:
        text = self.text.replace("\n", " ").replace("\r", " ")
        self._shift = len(text) - len(text.lstrip())
        self._source = text.strip()
        if len(text) > _MAX_LENGTH:
            raise ExpressionError(
                f"expression: expected at most {_MAX_LENGTH:,} characters, got {len(text):,}"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes and the like
                return ast.parse(self._source, mode="eval").body
        except SyntaxError as error:
            column = self._shift + max(error.offset or 1, 1)
            before = self._source[: error.offset or 0]
            hints = [f": write {right}" for sign, right in _SIGNS.items() if before.endswith(sign)]
            hint = hints[0] if hints else ""
            raise ExpressionError(f"expression: {error.msg}{hint} (column {column})") from None
        except (RecursionError, MemoryError):
            raise ExpressionError("expression: nested too deeply") from None
        except ValueError as error:  # null bytes, integers of too many digits
            raise ExpressionError(f"expression: {error}") from None

    def _error(self, node: ast.AST, message: str) -> ExpressionError:
        offset = len(self._source.encode()[: getattr(node, "col_offset", 0)].decode())
        return ExpressionError(f"expression: {message} (column {self._shift + offset + 1})")

    def _compiled(self, node: ast.AST, depth: int) -> Evaluator:
        """Checks a node of the tree and those below it, and returns what evaluates them."""
        if depth > _MAX_DEPTH:
            raise self._error(node, "nested too deeply")
        evaluate = self._form(node, lambda below: self._compiled(below, depth + 1))

        def located(structures: Structures) -> operations.Value:
            try:
                return evaluate(structures)
            except operations.OperandError as error:
                raise self._error(node, str(error)) from None

        return located

    def _form(self, node: ast.AST, below: Callable[[ast.AST], Evaluator]) -> Evaluator:
        match node:
            case ast.BoolOp():
                join = partial(operations.logical, _OPERATORS[type(node.op)])
                return _applied(join, *map(below, node.values))
            case ast.UnaryOp(op=ast.Not()):
                return _applied(operations.negated, below(node.operand))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=value)) if type(
                value
            ) in (int, float):
                return lambda _: _constant_value(node)  # not in float64, which rounds integers
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                sign = operations.Number(np.array(-1.0 if isinstance(node.op, ast.USub) else 1.0))
                return _applied(partial(operations.arithmetic, "*", sign), below(node.operand))
            case ast.BinOp() if type(node.op) in _OPERATORS:
                compute = partial(operations.arithmetic, _OPERATORS[type(node.op)])
                return _applied(compute, below(node.left), below(node.right))
            case ast.Compare():
                if any(type(op) not in _OPERATORS for op in node.ops):
                    raise self._error(node, "expected == or !=, got is")
                names = [_OPERATORS[type(op)] for op in node.ops]
                sides = map(below, (node.left, *node.comparators))
                return _applied(partial(operations.compare_all, names), *sides)
            case ast.Call():
                return self._call(node, below)
            case ast.Set() | ast.Tuple() | ast.List():
                for item in node.elts:
                    if not _is_constant(item):
                        raise self._error(item, "expected a number or a string in a set")
                choices = operations.Choices(frozenset(map(_constant, node.elts)))
                return lambda _: choices
            case ast.Name(id=name):
                if name in FUNCTIONS and name not in BUILTINS:
                    raise self._error(node, f"{name} is a function: write {name}(...)")
                self._names.setdefault(name, node)
                return lambda structures: structures.value(name)
            case _ if _is_constant(node):
                return lambda _: _constant_value(node)
        is_bitwise = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr))
        hint = ": write and, or" if is_bitwise else ""
        raise self._error(node, f"{_named(node)} is not allowed{hint}")

    def _call(self, node: ast.Call, below: Callable[[ast.AST], Evaluator]) -> Evaluator:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name not in FUNCTIONS:
            expected, got = ", ".join(FUNCTIONS), name or _named(node.func)
            raise self._error(node, f"expected one of the functions {expected}, got {got}")
        n = 2 if name in ("startswith", "endswith") else 1
        if len(node.args) != n or node.keywords or isinstance(node.args[0], ast.Starred):
            raise self._error(node, f"{name}: expected {n} argument{'s' * (n > 1)}")
        if name in ("has", "field"):
            field = self._field_name(node.args[0], only_string=name == "field")
            (self._asked if name == "has" else self._direct).setdefault(field, node)
            find = Structures.has if name == "has" else Structures.field
            return lambda structures: find(structures, field)
        if name == "count":
            self._names.setdefault("elements", node)
            item = below(node.args[0])
            return _applied(operations.count_of, lambda found: found.value("elements"), item)
        return _applied(_FUNCTIONS[name], *map(below, node.args))

    def _field_name(self, node: ast.AST, *, only_string: bool) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Name) and not only_string:
            return node.id
        raise self._error(node, "expected the name of a field as a string")


def _applied(operation: Callable[..., operations.Value], *operands: Evaluator) -> Evaluator:
    return lambda structures: operation(*(operand(structures) for operand in operands))


def _spelled(name: str, known: Collection[str]) -> str:
    """Returns the key that the normal form of an identifier belongs to."""
    if name in known:
        return name
    same = [key for key in known if normal(key) == name]
    return same[0] if len(same) == 1 else name


def _is_constant(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return _is_constant(node.operand) and not isinstance(_constant(node.operand), str)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float, str, bool)


def _constant(node: ast.AST) -> Any:
    if isinstance(node, ast.UnaryOp):
        value = _constant(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    assert isinstance(node, ast.Constant)
    return node.value


def _constant_value(node: ast.AST) -> operations.Value:
    value = _constant(node)
    if isinstance(value, bool):
        return operations.Truth(np.array(value))
    if isinstance(value, str):
        return operations.Text(np.array(value, object))
    fits = isinstance(value, float) or -(2**63) <= value < 2**63
    try:
        return operations.Number(np.array(value if fits else float(value)))
    except OverflowError:
        raise operations.OperandError("a number is out of range") from None


_FORMS: Mapping[type[ast.AST], str] = {
    ast.Attribute: "an attribute",
    ast.Subscript: "an index",
    ast.Lambda: "a function",
    ast.IfExp: "if ... else",
    ast.Dict: "a dict",
    ast.JoinedStr: "an f-string",
    ast.Starred: "*",
    ast.BinOp: "this operator",
    ast.UnaryOp: "this operator",
    ast.Constant: "this constant",
    ast.NamedExpr: ":=",
}


def _named(node: ast.AST) -> str:
    return _FORMS.get(type(node), type(node).__name__)
