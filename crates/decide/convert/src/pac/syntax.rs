//! Statements and expressions, and the parser that makes them of tokens.

use super::token::{Token, TokenKind, tokens};
use crate::unreadable::Unreadable;

/// Levels of blocks and brackets.
#[doc(alias = "bound")]
const DEEPEST: u32 = 64;

#[derive(Debug, Clone)]
pub(super) enum Statement {
    /// `if`, each `else if`, and `else`.
    If {
        branches: Vec<Branch>,
        otherwise: Vec<Statement>,
    },
    Return {
        line: u32,
        value: Option<Expression>,
    },
    /// `var x = ..` or `x = ..`.
    Assign { name: String, value: Expression },
    /// A loop, or anything else that is passed over.
    Other { line: u32, what: String },
}

#[derive(Debug, Clone)]
pub(super) struct Branch {
    pub(super) condition: Expression,
    pub(super) then: Vec<Statement>,
}

#[derive(Debug, Clone)]
pub(super) struct Expression {
    pub(super) line: u32,
    pub(super) form: Form,
}

#[derive(Debug, Clone)]
pub(super) enum Form {
    Text(String),
    Number(f64),
    Truth(bool),
    Regex {
        expression: String,
        folds_case: bool,
    },
    Name(String),
    Call {
        function: Box<Expression>,
        operands: Vec<Expression>,
    },
    Member {
        of: Box<Expression>,
        name: String,
    },
    Not(Box<Expression>),
    Negative(Box<Expression>),
    Binary {
        sign: &'static str,
        left: Box<Expression>,
        right: Box<Expression>,
    },
    Choice {
        condition: Box<Expression>,
        then: Box<Expression>,
        otherwise: Box<Expression>,
    },
    /// A list, an index, or a function.
    Other(String),
}

/// A file.
#[derive(Debug)]
pub(super) struct Program {
    /// Statements outside of functions.
    pub(super) statements: Vec<Statement>,
    /// The body of `FindProxyForURL`, and the names of its parameters.
    pub(super) main: Option<Function>,
}

#[derive(Debug)]
pub(super) struct Function {
    pub(super) parameters: Vec<String>,
    pub(super) body: Vec<Statement>,
}

pub(super) fn parse(text: &str) -> Result<Program, Unreadable> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        main: None,
    };
    let mut statements = Vec::new();
    while parser.peek() != &TokenKind::End {
        parser.statement(&mut statements)?;
    }
    Ok(Program {
        statements,
        main: parser.main,
    })
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
    main: Option<Function>,
}

impl Parser {
    fn peek(&self) -> &TokenKind {
        self.tokens
            .get(self.at)
            .map_or(&TokenKind::End, |token| &token.kind)
    }

    fn line(&self) -> u32 {
        let last = self.tokens.last();
        self.tokens
            .get(self.at)
            .or(last)
            .map_or(1, |token| token.line)
    }

    fn next(&mut self) -> TokenKind {
        let kind = self.peek().clone();
        self.at += 1;
        kind
    }

    fn wrong(&self, wanted: &str) -> Unreadable {
        Unreadable::at(
            self.line(),
            format!("{wanted} is missing here, or this is not understood"),
        )
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), TokenKind::Sign(found) if *found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), TokenKind::Word(found) if found == word)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), Unreadable> {
        match self.take_sign(sign) {
            true => Ok(()),
            false => Err(self.wrong(&format!("`{sign}`"))),
        }
    }

    fn name(&mut self) -> Result<String, Unreadable> {
        match self.peek() {
            TokenKind::Word(word) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.wrong("a name")),
        }
    }

    fn deeper<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        if self.depth >= DEEPEST {
            let reason = format!("blocks and brackets are more than {DEEPEST} levels deep here");
            return Err(Unreadable::at(self.line(), reason));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// A block, or one statement.
    fn body(&mut self) -> Result<Vec<Statement>, Unreadable> {
        self.deeper(|parser| {
            let mut statements = Vec::new();
            if !parser.take_sign("{") {
                parser.statement(&mut statements)?;
                return Ok(statements);
            }
            while !parser.take_sign("}") {
                if parser.peek() == &TokenKind::End {
                    return Err(parser.wrong("`}`"));
                }
                parser.statement(&mut statements)?;
            }
            Ok(statements)
        })
    }

    fn statement(&mut self, into: &mut Vec<Statement>) -> Result<(), Unreadable> {
        let line = self.line();
        if self.take_sign(";") {
            return Ok(());
        }
        if self.is_sign("{") {
            into.extend(self.body()?);
            return Ok(());
        }
        let word = match self.peek() {
            TokenKind::Word(word) => word.clone(),
            _ => String::new(),
        };
        match word.as_str() {
            "function" => self.function(into),
            "if" => self.branches(into),
            "return" => self.result(line, into),
            "var" | "let" | "const" => self.variables(into),
            "for" | "while" | "do" | "switch" | "try" => self.compound(line, word, into),
            _ => self.plain(line, into),
        }
    }

    fn function(&mut self, into: &mut Vec<Statement>) -> Result<(), Unreadable> {
        let line = self.line();
        self.at += 1;
        let name = self.name()?;
        self.expect("(")?;
        let mut parameters = Vec::new();
        while !self.take_sign(")") {
            parameters.push(self.name()?);
            self.take_sign(",");
        }
        let body = self.body()?;
        if name == "FindProxyForURL" {
            self.main = Some(Function { parameters, body });
        } else {
            let what = format!("the function {name}");
            into.push(Statement::Other { line, what });
        }
        Ok(())
    }

    fn branches(&mut self, into: &mut Vec<Statement>) -> Result<(), Unreadable> {
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        while self.take_word("if") {
            self.expect("(")?;
            let condition = self.expression()?;
            self.expect(")")?;
            let then = self.body()?;
            branches.push(Branch { condition, then });

            if !self.take_word("else") {
                break;
            }
            if !self.is_word("if") {
                otherwise = self.body()?;
            }
        }
        into.push(Statement::If {
            branches,
            otherwise,
        });
        Ok(())
    }

    fn result(&mut self, line: u32, into: &mut Vec<Statement>) -> Result<(), Unreadable> {
        self.at += 1;
        let ends = self.is_sign(";") || self.is_sign("}") || self.peek() == &TokenKind::End;
        let value = if ends { None } else { Some(self.expression()?) };
        self.take_sign(";");
        into.push(Statement::Return { line, value });
        Ok(())
    }

    fn variables(&mut self, into: &mut Vec<Statement>) -> Result<(), Unreadable> {
        self.at += 1;
        loop {
            let name = self.name()?;
            if self.take_sign("=") {
                let value = self.expression()?;
                into.push(Statement::Assign { name, value });
            }
            if !self.take_sign(",") {
                break;
            }
        }
        self.take_sign(";");
        Ok(())
    }

    /// Passes over a statement with brackets of its own.
    fn compound(
        &mut self,
        line: u32,
        word: String,
        into: &mut Vec<Statement>,
    ) -> Result<(), Unreadable> {
        self.at += 1;
        let mut open = 0_u32;
        let mut was_open = false;
        loop {
            match self.next() {
                TokenKind::Sign("(" | "[" | "{") => {
                    open += 1;
                    was_open = true;
                }
                TokenKind::Sign(sign @ (")" | "]" | "}")) => {
                    open = open.saturating_sub(1);
                    let goes_on = ["else", "catch", "finally", "while"]
                        .iter()
                        .any(|word| self.is_word(word));
                    if open == 0 && sign == "}" && !goes_on {
                        break;
                    }
                }
                TokenKind::Sign(";") if open == 0 && was_open => break,
                TokenKind::End => return Err(self.wrong("the end of this statement")),
                _ => {}
            }
        }
        let what = format!("`{word}`");
        into.push(Statement::Other { line, what });
        Ok(())
    }

    /// An assignment, or an expression that is only evaluated.
    fn plain(&mut self, line: u32, into: &mut Vec<Statement>) -> Result<(), Unreadable> {
        let left = self.expression()?;
        let statement = match left.form {
            Form::Name(name) if self.take_sign("=") => {
                let value = self.expression()?;
                Statement::Assign { name, value }
            }
            _ => {
                let is_directive = matches!(left.form, Form::Text(_));
                while !is_directive
                    && !self.is_sign(";")
                    && !self.is_sign("}")
                    && self.peek() != &TokenKind::End
                {
                    self.at += 1;
                }
                let what = if is_directive {
                    String::new()
                } else {
                    "this expression".to_owned()
                };
                Statement::Other { line, what }
            }
        };
        self.take_sign(";");
        into.push(statement);
        Ok(())
    }

    fn expression(&mut self) -> Result<Expression, Unreadable> {
        self.deeper(|parser| {
            let condition = parser.binary(0)?;
            if !parser.take_sign("?") {
                return Ok(condition);
            }
            let line = condition.line;
            let then = parser.expression()?;
            parser.expect(":")?;
            let otherwise = parser.expression()?;
            let form = Form::Choice {
                condition: Box::new(condition),
                then: Box::new(then),
                otherwise: Box::new(otherwise),
            };
            Ok(Expression { line, form })
        })
    }

    fn binary(&mut self, level: usize) -> Result<Expression, Unreadable> {
        /// Signs, those that bind least first.
        const LEVELS: &[&[&str]] = &[
            &["||"],
            &["&&"],
            &["|", "^", "&"],
            &["===", "!==", "==", "!="],
            &["<=", ">=", "<", ">"],
            &["+", "-"],
            &["*", "/", "%"],
        ];
        let Some(signs) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        let mut length = 0_u32;
        while let Some(sign) = signs.iter().find(|sign| self.is_sign(sign)) {
            // A chain nests as deep as it is long, and expressions are compared recursively.
            length += 1;
            if length > DEEPEST * 8 {
                let reason = format!("more than {} operands stand in one expression", DEEPEST * 8);
                return Err(Unreadable::at(self.line(), reason));
            }
            self.at += 1;
            let right = self.binary(level + 1)?;
            left = Expression {
                line: right.line,
                form: Form::Binary {
                    sign,
                    left: Box::new(left),
                    right: Box::new(right),
                },
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, Unreadable> {
        let line = self.line();
        if self.take_sign("!") {
            let inner = self.deeper(Self::unary)?;
            let form = Form::Not(Box::new(inner));
            return Ok(Expression { line, form });
        }
        if self.take_sign("-") {
            let inner = self.deeper(Self::unary)?;
            let form = Form::Negative(Box::new(inner));
            return Ok(Expression { line, form });
        }
        let mut expression = self.primary()?;
        let mut length = 0_u32;
        loop {
            length += 1;
            if length > DEEPEST {
                return Err(self.wrong("the end of this expression"));
            }
            let form = if self.take_sign(".") {
                let name = self.name()?;
                Form::Member {
                    of: Box::new(expression),
                    name,
                }
            } else if self.take_sign("(") {
                let operands = self.operands(")")?;
                Form::Call {
                    function: Box::new(expression),
                    operands,
                }
            } else if self.take_sign("[") {
                self.operands("]")?;
                Form::Other("an element of a list".to_owned())
            } else {
                return Ok(expression);
            };
            expression = Expression { line, form };
        }
    }

    fn operands(&mut self, closing: &str) -> Result<Vec<Expression>, Unreadable> {
        let mut operands = Vec::new();
        while !self.take_sign(closing) {
            operands.push(self.expression()?);
            if !self.take_sign(",") && !self.is_sign(closing) {
                return Err(self.wrong(&format!("`{closing}`")));
            }
        }
        Ok(operands)
    }

    fn primary(&mut self) -> Result<Expression, Unreadable> {
        let line = self.line();
        let form = match self.next() {
            TokenKind::Text(text) => Form::Text(text),
            TokenKind::Number(number) => Form::Number(number),
            TokenKind::Regex {
                expression,
                folds_case,
            } => Form::Regex {
                expression,
                folds_case,
            },
            TokenKind::Word(word) => match word.as_str() {
                "true" => Form::Truth(true),
                "false" => Form::Truth(false),
                "null" | "undefined" => Form::Other("nothing".to_owned()),
                "new" | "function" | "typeof" => {
                    return Err(Unreadable::at(line, format!("`{word}` is not understood")));
                }
                _ => Form::Name(word),
            },
            TokenKind::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            TokenKind::Sign("[") => {
                self.operands("]")?;
                Form::Other("a list".to_owned())
            }
            _ => return Err(Unreadable::at(line, "this is not understood")),
        };
        Ok(Expression { line, form })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let text = "'use strict';\nvar p = 'PROXY a:1';\nfunction f(x) { return x; }\nfunction FindProxyForURL(url, host) {\n\
            for (var i = 0; i < 3; i++) { if (i) { return 'x'; } }\n\
            if (a(host) && !(b.c == 1 || d[0])) { return p; } else if (x) return 'y';\n return z ? 'a' : 'b' }\n";
        let program = parse(text).unwrap();
        let main = program.main.unwrap();
        assert_eq!(main.parameters, ["url", "host"]);
        assert_eq!(main.body.len(), 3);
        assert!(matches!(&main.body[0], Statement::Other { line: 5, .. }));
        let Statement::If {
            branches,
            otherwise,
        } = &main.body[1]
        else {
            panic!("{:?}", main.body[1]);
        };
        assert_eq!(branches.len(), 2);
        assert!(otherwise.is_empty());
    }

    #[test]
    fn what_is_deep_or_broken_is_refused_with_its_line() {
        let deep = format!("x = {}", "(".repeat(100_000));
        assert!(parse(&deep).is_err());
        let blocks = "{".repeat(100_000);
        assert!(parse(&blocks).is_err());
        let nots = format!("x = {}1", "!".repeat(100_000));
        assert!(parse(&nots).is_err());
        let long = format!("x = 1{}", " + 1".repeat(100_000));
        assert!(parse(&long).is_err());
        let calls = format!("x = a{}", "()".repeat(100_000));
        assert!(parse(&calls).is_err());
        let choices = format!("x = {}1", "1 ? 2 : ".repeat(100_000));
        assert!(parse(&choices).is_err());
        assert_eq!(parse("a = 1;\nif (x {").unwrap_err().line, Some(2));
    }
}
