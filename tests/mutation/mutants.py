"""Makes the mutants of a module: copies of its functions that differ in one place.

The operators are mutmut's. One more negates a condition that has no operator of its own.
"""

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import (
    Mutation,
    MutationVisitor,
    OuterFunctionProvider,
    deep_replace,
)
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

# What has no effect: the type that a value is cast to, the assertion of zip() that its arguments
# have the same length, and None in place of False. Their mutants are not counted.
WITHOUT_EFFECT = (
    (re.compile(r'\bcast\(("[^"]*"|[^",]+), '), "cast("),
    (re.compile(r"(, )?\bstrict=\w+,?|, (?=\))"), ""),
    (re.compile(r"\bFalse\b"), "None"),
)
# What a condition may consist of, so that no other operator changes all of it.
BARE = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A function that differs from the program's in one place.

    Attributes:
        function: Its name, after that of its class where it has one.
        first_line: Of the function in the file, decorators included.
        lines: Those of the statement that differs.
        was: The lines that the mutant removes, without indentation.
        becomes: The lines that it puts there.
        source: The whole function.
    """

    function: str
    first_line: int
    lines: range
    was: str
    becomes: str
    source: str


class _Visitor(MutationVisitor):
    def _create_mutations(self, node: cst.CSTNode) -> None:
        made = len(self.mutations)
        super()._create_mutations(node)
        if isinstance(node, cst.SimpleString) and " " in node.value:
            # A sentence in other letters proves nothing that another sentence does not.
            del self.mutations[made + 1 :]
        if isinstance(node, cst.If | cst.CompIf) and isinstance(node.test, BARE):
            function = self.get_metadata(OuterFunctionProvider, node, None)
            negated = cst.UnaryOperation(cst.Not(), node.test)
            self.mutations.append(Mutation(node.test, negated, function))

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        # Code is replaced inside the function, so its decorators are no obstacle.
        if isinstance(node, cst.FunctionDef) and node.decorators:
            node = node.with_changes(decorators=())
        return super()._skip_node_and_children(node)


def make_mutants(source: str) -> list[Mutant]:
    """All mutants of a module's functions, in the order of their lines."""
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    visitor = _Visitor(mutation_operators, IgnoredCode(set(), set(), set()))
    wrapper.visit(visitor)
    positions = wrapper.resolve(PositionProvider)
    names = dict(_functions(wrapper.module))
    statements = _statements(ast.parse(source))
    codes: dict[cst.FunctionDef, str] = {}
    mutants: list[Mutant] = []
    for mutation in visitor.mutations:
        function = mutation.contained_by_top_level_function
        if function not in names:
            continue
        if function not in codes:
            codes[function] = _code(function)
        changed = deep_replace(function, mutation.original_node, mutation.mutated_node)
        code = _code(changed)
        was, becomes = _difference(codes[function], code)
        if _effect(was) == _effect(becomes):
            continue
        line = positions[mutation.original_node].start.line
        lines = min((each for each in statements if line in each), key=len, default=range(0))
        first = function.decorators[0] if function.decorators else function
        first_line = positions[first].start.line
        mutants.append(Mutant(names[function], first_line, lines, was, becomes, code))
    return mutants


def _functions(module: cst.Module) -> Iterator[tuple[cst.FunctionDef, str]]:
    for node in module.body:
        if isinstance(node, cst.FunctionDef):
            yield node, node.name.value
        elif isinstance(node, cst.ClassDef):
            for child in node.body.body:
                if isinstance(child, cst.FunctionDef):
                    yield child, f"{node.name.value}.{child.name.value}"


def _code(function: cst.FunctionDef) -> str:
    return cst.Module([function]).code.strip()


def _effect(lines: str) -> str:
    for pattern, instead in WITHOUT_EFFECT:
        lines = pattern.sub(instead, lines)
    return lines


def _difference(original: str, changed: str) -> tuple[str, str]:
    lines = list(difflib.unified_diff(original.split("\n"), changed.split("\n"), lineterm=""))[2:]
    was, becomes = (
        "\n".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
    return was, becomes


def _statements(tree: ast.Module) -> list[range]:
    """The lines of every statement, without those of the statements inside it."""
    found: list[range] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.match_case | ast.excepthandler):
            body = getattr(node, "body", None)
            first = node.pattern if isinstance(node, ast.match_case) else node
            start = min(each.lineno for each in (first, *getattr(node, "decorator_list", ())))
            end = max(start, body[0].lineno - 1) if body else node.end_lineno
            found.append(range(start, end + 1))
    return found
