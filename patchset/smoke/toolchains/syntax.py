"""Python that an older Triton does not take, said in a way that it takes."""

from __future__ import annotations

import ast


class PairsOnly(ast.NodeTransformer):
    """Makes ``(a and b) and c`` of ``a and b and c``."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """One ``and`` or ``or`` with any number of operands, from the left."""
        self.generic_visit(node)
        joined = node.values[0]
        for value in node.values[1:]:
            joined = ast.copy_location(ast.BoolOp(node.op, [joined, value]), node)
        return joined
