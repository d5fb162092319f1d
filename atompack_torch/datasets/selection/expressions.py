"""Expressions over labels and elements, such as ``energy / n_atoms < -3 and 'Fe' in elements``.

They have the syntax of Python, but are never executed: the syntax tree is checked against a list
of allowed forms and evaluated for a whole block of molecules in one go.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from atompack_torch.datasets.selection import operations
from atompack_torch.datasets.selection import values as v
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
_NUMERIC: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
}
_REDUCTIONS = ("max", "min", "mean", "sum", "any", "all")
_TEXT: dict[str, Callable[[str, str], bool]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
}
FUNCTIONS = ("has", "field", "count", "norm", "isnan", *_REDUCTIONS, *_NUMERIC, *_TEXT)


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
        self._check(self._root, 0)

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
        structures = Structures(block)
        found = self._value(self._root, structures)
        n = len(block.ptr) - 1
        if not isinstance(found, v.Truth):
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

    def _check(self, node: ast.AST, depth: int) -> None:
        """Checks a node of the tree and those below it, and collects the names."""
        if depth > _MAX_DEPTH:
            raise self._error(node, "nested too deeply")
        below: list[ast.AST] = []
        if isinstance(node, ast.BoolOp):
            below = [*node.values]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub, ast.UAdd)):
            below = [node.operand]
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            below = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            for op in node.ops:
                if type(op) not in _OPERATORS:
                    raise self._error(node, "expected == or !=, got is")
            below = [node.left, *node.comparators]
        elif isinstance(node, ast.Call):
            below = self._check_call(node)
        elif isinstance(node, (ast.Set, ast.Tuple, ast.List)):
            for item in node.elts:
                if not _is_constant(item):
                    raise self._error(item, "expected a number or a string in a set")
        elif isinstance(node, ast.Name):
            self._check_name(node)
        elif not _is_constant(node):
            hint = ""
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
                hint = ": write and, or"
            raise self._error(node, f"{_named(node)} is not allowed{hint}")
        for child in below:
            self._check(child, depth + 1)

    def _check_name(self, node: ast.Name) -> None:
        if node.id in FUNCTIONS and node.id not in BUILTINS:
            raise self._error(node, f"{node.id} is a function: write {node.id}(...)")
        self._names.setdefault(node.id, node)

    def _check_call(self, node: ast.Call) -> list[ast.AST]:
        """Checks a call; returns the arguments that are values."""
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name not in FUNCTIONS:
            expected, got = ", ".join(FUNCTIONS), name or _named(node.func)
            raise self._error(node, f"expected one of the functions {expected}, got {got}")
        n = 2 if name in _TEXT else 1
        if len(node.args) != n or node.keywords or isinstance(node.args[0], ast.Starred):
            raise self._error(node, f"{name}: expected {n} argument{'s' * (n > 1)}")
        if name == "has":
            self._asked.setdefault(self._field_name(node.args[0]), node)
            return []
        if name == "field":
            self._direct.setdefault(self._field_name(node.args[0], only_string=True), node)
            return []
        if name == "count":
            self._names.setdefault("elements", node)
        return [*node.args]

    def _field_name(self, node: ast.AST, *, only_string: bool = False) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Name) and not only_string:
            return node.id
        raise self._error(node, "expected the name of a field as a string")

    # Evaluation

    def _value(self, node: ast.AST, structures: Structures) -> v.Value:
        try:
            return self._evaluated(node, structures)
        except v.OperandError as error:
            raise self._error(node, str(error)) from None

    def _evaluated(self, node: ast.AST, structures: Structures) -> v.Value:
        if isinstance(node, ast.BoolOp):
            values = [self._value(child, structures) for child in node.values]
            return operations.logical(_OPERATORS[type(node.op)], values)
        if isinstance(node, ast.UnaryOp):
            operand = self._value(node.operand, structures)
            if isinstance(node.op, ast.Not):
                return operations.negated(operand)
            sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
            return operations.arithmetic("*", v.Number(np.array(sign)), operand)
        if isinstance(node, ast.BinOp):
            left, right = (self._value(side, structures) for side in (node.left, node.right))
            return operations.arithmetic(_OPERATORS[type(node.op)], left, right)
        if isinstance(node, ast.Compare):
            sides = [self._value(side, structures) for side in (node.left, *node.comparators)]
            pairs = zip(node.ops, sides, sides[1:], strict=False)
            found: list[v.Value] = [
                operations.compare(_OPERATORS[type(op)], a, b) for op, a, b in pairs
            ]
            return operations.logical("and", found)
        if isinstance(node, ast.Call):
            return self._called(node, structures)
        if isinstance(node, (ast.Set, ast.Tuple, ast.List)):
            return v.Choices(frozenset(_constant(item) for item in node.elts))
        if isinstance(node, ast.Name):
            return structures.value(node.id)
        return _constant_value(node)

    def _called(self, node: ast.Call, structures: Structures) -> v.Value:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name == "has":
            return structures.has(self._field_name(node.args[0]))
        if name == "field":
            return structures.field(self._field_name(node.args[0]))
        arguments = [self._value(argument, structures) for argument in node.args]
        if name == "count":
            elements = structures.value("elements")
            assert isinstance(elements, v.Elements)
            return operations.count_of(elements, arguments[0])
        if name == "norm":
            return operations.norm(arguments[0])
        if name == "isnan":
            return operations.is_nan(arguments[0])
        if name in _NUMERIC:
            return operations.elementwise(_NUMERIC[name], arguments[0], name)
        if name in _TEXT:
            return operations.text_test(_TEXT[name], arguments[0], arguments[1], name)
        return operations.rows_by_structure(arguments[0], name)


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


def _constant_value(node: ast.AST) -> v.Value:
    value = _constant(node)
    if isinstance(value, bool):
        return v.Truth(np.array(value))
    if isinstance(value, str):
        return v.Text(np.array(value, object))
    fits = isinstance(value, float) or -(2**63) <= value < 2**63
    try:
        return v.Number(np.array(value if fits else float(value)))
    except OverflowError:
        raise v.OperandError("a number is out of range") from None


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
