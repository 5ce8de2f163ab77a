"""Expressions to syntax trees, by the grammar and the precedences of CEL."""

from __future__ import annotations

from typing import Final

from kubenexus.common.cel import macros
from kubenexus.common.cel.errors import CelError
from kubenexus.common.cel.lexer import Token, is_reserved, tokens
from kubenexus.common.cel.syntax import (
    INDEX,
    MAYBE_INDEX,
    MAYBE_SELECT,
    TERNARY,
    Call,
    ListOf,
    Literal,
    Logic,
    MapOf,
    Name,
    Node,
    Select,
    children,
)
from kubenexus.common.cel.values import INT_MAX, Uint

# Deeper trees are refused; what walks a tree is recursive.
MAX_DEPTH: Final = 80

# Operators by how tightly they bind.
_LEVELS: Final = {
    sign: level
    for level, signs in enumerate((("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), "+-", "*/%"))
    for sign in signs
}


def parse(text: str) -> Node:
    """The syntax tree; raises `CelError` for whatever is not an expression."""
    parser = _Parser(text)
    node = parser.expression()
    parser.expect_end()
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._next = 0
        self._nesting = 0
        self._heights: dict[Node, int] = {}

    def expression(self) -> Node:
        """A ternary, or what binds tighter."""
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise self._error("the expression is nested too deeply", self._token.at)
        node = self._operators()
        if question := self._take("?"):
            yes = self._operators()
            self._expect(":")
            node = self._made(Call(question.at, TERNARY, (node, yes, self.expression())))
        self._nesting -= 1
        return node

    def expect_end(self) -> None:
        if self._token.kind != "end":
            raise self._unexpected()

    def _operators(self, loosest: int = 0) -> Node:
        """Operands with operators between them that bind no looser; those that bind alike are taken from the left."""
        node = self._unary()
        while self._token.kind == "sign" and _LEVELS.get(self._token.text, -1) >= loosest:
            sign = self._advance()
            tighter = _LEVELS[sign.text] + 1
            right = self._operators(tighter)
            if sign.text in ("||", "&&"):
                terms = [node, right]
                while self._take(sign.text):
                    terms.append(self._operators(tighter))
                node = self._made(Logic(sign.at, f"_{sign.text}_", tuple(terms)))
            else:
                function = "@in" if sign.text == "in" else f"_{sign.text}_"
                node = self._made(Call(sign.at, function, (node, right)))
        return node

    def _unary(self) -> Node:
        first = self._token
        count = 0
        while first.text in ("!", "-") and first.kind == "sign" and self._take(first.text):
            count += 1
        if count and first.text == "-" and type(self._token.value) in (int, float) and self._token.kind == "value":
            count, node = count - 1, self._negative(first)
        else:
            node = self._member()
        if count % 2 == 0:
            return node
        return self._made(Call(first.at, f"{first.text}_", (node,)))

    def _negative(self, sign: Token) -> Node:
        value = self._advance().value
        assert isinstance(value, int | float)
        return self._suffixes(self._made(Literal(sign.at, -value)))

    def _member(self) -> Node:
        return self._suffixes(self._primary())

    def _suffixes(self, node: Node) -> Node:
        """Selections, calls and indices that follow."""
        while True:
            if dot := self._take("."):
                node = self._selected(node, dot)
            elif bracket := self._take("["):
                function = MAYBE_INDEX if self._take("?") else INDEX
                key = self.expression()
                self._expect("]")
                node = self._made(Call(bracket.at, function, (node, key)))
            else:
                return node

    def _selected(self, node: Node, dot: Token) -> Node:
        if self._take("?"):
            field = self._advance_name()
            return self._made(Call(dot.at, MAYBE_SELECT, (node, self._made(Literal(field.at, field.text)))))
        field = self._advance_name()
        if opening := self._take("("):
            args = self._arguments()
            expanded = macros.expand_member(self._text, opening.at, node, field.text, args)
            return self._made(expanded or self._method(opening.at, node, field.text, args))
        return self._made(Select(dot.at, node, field.text))

    def _method(self, at: int, node: Node, function: str, args: tuple[Node, ...]) -> Node:
        if isinstance(node, Name) and node.name in macros.NAMESPACES:
            return Call(at, f"{node.name}.{function}", args)
        return Call(at, function, (node, *args), member=True)

    def _primary(self) -> Node:
        token = self._token
        if token.kind == "value":
            return self._literal(self._advance())
        if token.kind == "name" or self._take("."):
            return self._named(self._advance_name())
        if self._take("("):
            node = self.expression()
            self._expect(")")
            return node
        if self._take("["):
            return self._made(ListOf(token.at, self._items("]")))
        if self._take("{"):
            return self._made(MapOf(token.at, self._entries()))
        raise self._unexpected()

    def _literal(self, token: Token) -> Node:
        if isinstance(token.value, int) and not isinstance(token.value, Uint) and token.value > INT_MAX:
            raise self._error("invalid int literal", token.at)
        return self._made(Literal(token.at, token.value))

    def _named(self, name: Token) -> Node:
        if is_reserved(name.text):
            raise self._error(f"reserved identifier: {name.text}", name.at)
        if opening := self._take("("):
            args = self._arguments()
            expanded = macros.expand_global(self._text, opening.at, name.text, args)
            return self._made(expanded or Call(opening.at, name.text, args))
        return self._made(Name(name.at, name.text))

    def _arguments(self) -> tuple[Node, ...]:
        if self._take(")"):
            return ()
        args = [self.expression()]
        while self._take(","):
            args.append(self.expression())
        self._expect(")")
        return tuple(args)

    def _items(self, closing: str) -> tuple[Node, ...]:
        """Items up to the closing sign; a comma may follow the last."""
        items: list[Node] = []
        while not self._take(closing):
            items.append(self.expression())
            if not self._take(","):
                self._expect(closing)
                break
        return tuple(items)

    def _entries(self) -> tuple[tuple[Node, Node], ...]:
        entries: list[tuple[Node, Node]] = []
        while not self._take("}"):
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
            if not self._take(","):
                self._expect("}")
                break
        return tuple(entries)

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _advance(self) -> Token:
        token = self._token
        self._next += 1
        return token

    def _advance_name(self) -> Token:
        if self._token.kind == "name":
            return self._advance()
        raise self._unexpected()

    def _take(self, sign: str) -> Token | None:
        token = self._token
        return self._advance() if token.kind == "sign" and token.text == sign else None

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._unexpected()

    def _unexpected(self) -> CelError:
        return self._error(f"Syntax error: extraneous input '{self._token.text}'", self._token.at)

    def _error(self, why: str, at: int) -> CelError:
        return CelError(why, self._text, at)

    def _made(self, node: Node) -> Node:
        """The node, if the tree below it is not too deep. Macros make nodes of their own, so levels are looked up."""
        self._height(node)
        return node

    def _height(self, node: Node) -> int:
        known = self._heights.get(node)
        if known is None:
            known = 1 + max((self._height(child) for child in children(node)), default=0)
            self._heights[node] = known
            if known > MAX_DEPTH:
                raise self._error("the expression is nested too deeply", node.at)
        return known
