//! The arguments whose values a shell completes with names.

use super::names::Completed;

/// An argument of a subcommand, and the names that it takes.
pub struct NamedArgument {
    /// The subcommand; of a nested one, both words.
    pub command: &'static [&'static str],
    /// The argument.
    pub argument: Argument,
    /// The names.
    pub names: Completed,
}

/// The position of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// The first word after the subcommand.
    First,
    /// Every word after the subcommand.
    Every,
    /// The value of this option.
    Option(&'static str),
}

const fn place(
    command: &'static [&'static str],
    argument: Argument,
    names: Completed,
) -> NamedArgument {
    NamedArgument {
        command,
        argument,
        names,
    }
}

/// All of them, but for `--node`, which takes a running node everywhere else.
pub const ARGUMENTS: [NamedArgument; 15] = [
    place(&["get"], Argument::First, Completed::Keys),
    place(&["delete"], Argument::Every, Completed::Keys),
    place(&["nodes"], Argument::Option("update"), Completed::Nodes),
    place(&["revoke"], Argument::First, Completed::Nodes),
    place(&["revoke"], Argument::Option("user"), Completed::Users),
    place(&["forget"], Argument::First, Completed::Nodes),
    place(
        &["token", "create"],
        Argument::Option("user"),
        Completed::Users,
    ),
    place(&["token", "delete"], Argument::First, Completed::Tokens),
    place(&["expose"], Argument::First, Completed::Targets),
    place(&["expose"], Argument::Option("to"), Completed::Users),
    place(&["expose"], Argument::Option("node"), Completed::Nodes),
    place(&["ping"], Argument::First, Completed::Targets),
    place(&["trace"], Argument::Every, Completed::Targets),
    place(&["why"], Argument::Option("user"), Completed::Users),
    place(&["why"], Argument::Option("from"), Completed::Nodes),
];

impl NamedArgument {
    /// The command that prints the names.
    pub fn asks(&self) -> String {
        format!("hermes completions --names {}", self.names.word())
    }
}
