//! Parsing of tokens into a syntax tree (EXPR-6).

use pillion_kubernetes::json::MAX_DEPTH;

use super::ExpressionError;
use super::lexer::{Lexer, Token};
use super::{Node, Operator, Slot, Step};

const OPERAND: &str = "a number, a quantity, cpu, memory, max(a, b), min(a, b), - or (";
const OPERATOR: &str = "one of + - * /";

/// Parses a whole expression.
pub(super) fn parse(text: &str) -> Result<Node, ExpressionError> {
    let mut parser = Parser { lexer: Lexer::new(text), token: Token::End, column: 1, depth: 0 };
    parser.advance()?;
    let node = parser.sum()?;
    if parser.token == Token::End { Ok(node) } else { Err(parser.unexpected(OPERATOR)) }
}

/// A recursive-descent parser. Only [`Parser::operand`] nests deeper. Chains of operators are lists, so their length
/// takes no stack, neither here nor in the evaluation.
struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token. `column` is where it starts.
    token: Token,
    column: usize,
    depth: usize,
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<Token, ExpressionError> {
        let (token, column) = self.lexer.next()?;
        self.column = column;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn unexpected(&self, expected: &'static str) -> ExpressionError {
        let found = match &self.token {
            Token::End => "the end".to_owned(),
            Token::Symbol(symbol) => format!("{symbol:?}"),
            Token::Name(name) => format!("{name:?}"),
            Token::Number(_) | Token::Quantity(_) => "a number".to_owned(),
        };
        ExpressionError::Syntax { column: self.column, found, expected }
    }

    /// Skips the next token if it is `symbol`. Returns whether it was.
    fn accept(&mut self, symbol: char) -> Result<bool, ExpressionError> {
        let found = self.token == Token::Symbol(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn deeper<T>(
        &mut self,
        column: usize,
        read: impl FnOnce(&mut Self) -> Result<T, ExpressionError>,
    ) -> Result<T, ExpressionError> {
        if self.depth >= MAX_DEPTH {
            return Err(ExpressionError::TooDeep { column });
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn sum(&mut self) -> Result<Node, ExpressionError> {
        self.chain(Self::product, &[('+', Operator::Add), ('-', Operator::Subtract)])
    }

    fn product(&mut self) -> Result<Node, ExpressionError> {
        self.chain(Self::operand, &[('*', Operator::Multiply), ('/', Operator::Divide)])
    }

    /// Parses operands joined by operators of one precedence, applied from left to right.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Result<Node, ExpressionError>,
        operators: &[(char, Operator)],
    ) -> Result<Node, ExpressionError> {
        let first = operand(self)?;
        let mut steps = Vec::new();
        loop {
            let next = operators.iter().find(|(symbol, _)| self.token == Token::Symbol(*symbol));
            let Some((_, operator)) = next else { break };
            let column = self.column;
            self.advance()?;
            steps.push(Step { operator: *operator, column, right: operand(self)? });
        }
        Ok(if steps.is_empty() { first } else { Node::Chain(Box::new(first), steps) })
    }

    fn operand(&mut self) -> Result<Node, ExpressionError> {
        let column = self.column;
        match self.token {
            Token::Number(_) | Token::Quantity(_) | Token::Name(_) | Token::Symbol('(' | '-') => {}
            Token::Symbol(_) | Token::End => return Err(self.unexpected(OPERAND)),
        }
        match self.advance()? {
            Token::Number(number) => Ok(Node::Number(number)),
            Token::Quantity(quantity) => Ok(Node::Quantity(quantity)),
            Token::Name(name) if self.token == Token::Symbol('(') => self.call(&name, column),
            Token::Name(name) => {
                let slot =
                    [Slot::Cpu, Slot::Memory].into_iter().find(|slot| name.eq_ignore_ascii_case(slot.variable()));
                slot.map(|slot| Node::Variable { slot, column })
                    .ok_or(ExpressionError::UnknownVariable { column, name })
            }
            Token::Symbol('-') => Ok(Node::Negated(Box::new(self.deeper(column, Self::operand)?))),
            Token::Symbol(_) | Token::End => {
                let inner = self.deeper(column, Self::sum)?;
                if self.accept(')')? { Ok(inner) } else { Err(self.unexpected("one of + - * / or )")) }
            }
        }
    }

    /// Parses the arguments of a call, after the name.
    fn call(&mut self, name: &str, column: usize) -> Result<Node, ExpressionError> {
        let (name, greater) = match name {
            name if name.eq_ignore_ascii_case("max") => ("max", true),
            name if name.eq_ignore_ascii_case("min") => ("min", false),
            name => return Err(ExpressionError::UnknownFunction { column, name: name.to_owned() }),
        };
        self.advance()?;
        let mut arguments = vec![self.deeper(column, Self::sum)?];
        while self.accept(',')? {
            arguments.push(self.deeper(column, Self::sum)?);
        }
        if !self.accept(')')? {
            return Err(self.unexpected("one of + - * / , or )"));
        }
        match <[Node; 2]>::try_from(arguments) {
            Ok(arguments) => Ok(Node::Pick { greater, column, arguments: Box::new(arguments) }),
            Err(arguments) => Err(ExpressionError::Arguments { column, name, got: arguments.len() }),
        }
    }
}
