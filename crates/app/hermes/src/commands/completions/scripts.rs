//! Scripts of shells that offer names. Their generator knows files and fixed words only, so that its scripts are changed here.

use clap_complete::Shell;

use super::places::{ARGUMENTS, Argument, NamedArgument};

/// The command that prints the names of the nodes that run here.
const RUNNING: &str = "hermes completions --names running";

/// The generated script, with names where arguments take them.
pub fn with_names(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => bash(script),
        Shell::Zsh => zsh(script),
        Shell::Fish => fish(script),
        _ => script.to_owned(),
    }
}

fn bash(script: &str) -> String {
    let mut script = script.to_owned();
    for named in &ARGUMENTS {
        script = in_bash(&script, named);
    }
    let files = bash_option("node", "-f \"${cur}\"");
    script.replace(&files, &bash_option("node", &bash_words(RUNNING)))
}

fn in_bash(script: &str, named: &NamedArgument) -> String {
    let label = format!("hermes__subcmd__{}", named.command.join("__subcmd__"));
    let begin = format!("\n        {label})\n");
    let Some((before, rest)) = script.split_once(&begin) else {
        return script.to_owned();
    };
    let end = "\n            ;;\n";
    let Some((block, after)) = rest.split_once(end) else {
        return script.to_owned();
    };

    let words = bash_words(&named.asks());
    let block = match named.argument {
        Argument::Option(option) => {
            let files = bash_option(option, "-f \"${cur}\"");
            block.replace(&files, &bash_option(option, &words))
        }
        Argument::First | Argument::Every => {
            let word = named.command.len() + 1;
            let place = match named.argument {
                Argument::First => format!("${{COMP_CWORD}} -eq {word}"),
                _ => "${prev} != --*".to_owned(),
            };
            let test = format!(
                "            if [[ ${{cur}} != -* && {place} ]] ; then\n                COMPREPLY=($(compgen {words}))\n                return 0\n            fi\n"
            );
            format!("{test}{block}")
        }
    };
    format!("{before}{begin}{block}{end}{after}")
}

/// The arguments by which `compgen` offers the words that a command prints.
fn bash_words(command: &str) -> String {
    format!("-W \"$({command} 2>/dev/null)\" -- \"${{cur}}\"")
}

fn bash_option(option: &str, generates: &str) -> String {
    format!("--{option})\n                    COMPREPLY=($(compgen {generates}))")
}

fn zsh(script: &str) -> String {
    let (head, rest) = script.split_once('\n').unwrap_or((script, ""));
    let mut text = format!("{head}\n");
    let kinds = ARGUMENTS.iter().map(|named| named.names.word());
    let mut kinds: Vec<&str> = kinds.chain(["running"]).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        text += &format!(
            "_hermes_{kind}() {{ compadd -- ${{(f)\"$(hermes completions --names {kind} 2>/dev/null)\"}} }}\n"
        );
    }

    let mut place = ZshPlace::default();
    for line in rest.lines() {
        text += &place.named(line);
        text.push('\n');
    }
    text
}

/// The subcommand whose arguments a line of the script is about.
#[derive(Default)]
struct ZshPlace {
    /// The cases that enclose the line, and the subcommands whose own ones they are about; the first is the program.
    cases: Vec<Option<String>>,
    command: String,
    positionals: usize,
}

impl ZshPlace {
    fn named(&mut self, line: &str) -> String {
        let trimmed = line.trim();
        if trimmed.starts_with("case ") {
            // One case looks at the state, the one in it at the subcommand.
            let is_command = trimmed.starts_with("case $line[");
            self.cases.push(is_command.then(|| self.command.clone()));
        } else if trimmed == "esac" {
            self.cases.pop();
        } else if let Some(command) = case_of(trimmed) {
            command.clone_into(&mut self.command);
            self.positionals = 0;
        }
        let is_positional = ["':", "'::", "'*::"]
            .iter()
            .any(|begin| line.starts_with(begin));
        self.positionals += usize::from(is_positional);
        let names = ARGUMENTS
            .iter()
            .find(|named| self.is_at(named, line, is_positional))
            .map(|named| named.names.word());
        let running = line.contains("--node=").then_some("running");
        match names.or(running) {
            Some(names) => line.replace(":_default'", &format!(":_hermes_{names}'")),
            None => line.to_owned(),
        }
    }

    fn is_at(&self, named: &NamedArgument, line: &str, is_positional: bool) -> bool {
        let outer = self.cases.iter().flatten().skip(1).map(String::as_str);
        let is_here = outer
            .chain([self.command.as_str()])
            .eq(named.command.iter().copied());
        is_here
            && match named.argument {
                Argument::Option(option) => line.contains(&format!("--{option}=")),
                Argument::First => is_positional && self.positionals == 1,
                Argument::Every => is_positional,
            }
    }
}

/// The word that a case is for.
fn case_of(line: &str) -> Option<&str> {
    let word = line.strip_prefix('(')?.strip_suffix(')')?;
    let is_word = word
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    is_word.then_some(word)
}

fn fish(script: &str) -> String {
    let mut text = String::new();
    for line in script.lines() {
        let named = ARGUMENTS.iter().find(|named| {
            let option = match named.argument {
                Argument::Option(option) => format!(" -l {option} "),
                Argument::First | Argument::Every => return false,
            };
            line.starts_with(&fish_place(named)) && line.contains(&option)
        });
        let asks = named.map(NamedArgument::asks);
        let running = line.contains(" -l node ").then(|| RUNNING.to_owned());
        match asks.or(running) {
            Some(asks) => text += &format!("{line} -f -a '({asks})'\n"),
            None => text += &format!("{line}\n"),
        }
    }
    for named in &ARGUMENTS {
        if !matches!(named.argument, Argument::Option(_)) {
            text += &format!("{} -f -a '({})'\n", fish_place(named), named.asks());
        }
    }
    text
}

/// How a line for a subcommand begins.
fn fish_place(named: &NamedArgument) -> String {
    let condition = match named.command {
        [command, nested] => format!(
            "__fish_hermes_using_subcommand {command}; and __fish_seen_subcommand_from {nested}"
        ),
        command => format!("__fish_hermes_using_subcommand {}", command.join(" ")),
    };
    format!("complete -c hermes -n \"{condition}\"")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn script(shell: Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "hermes", &mut script);
        with_names(shell, &String::from_utf8(script).unwrap())
    }

    /// How often a script asks for names of a kind.
    fn asks(script: &str, shell: Shell, kind: &str) -> usize {
        match shell {
            Shell::Zsh => script.matches(&format!(":_hermes_{kind}'")).count(),
            _ => script.matches(&format!("--names {kind}")).count(),
        }
    }

    #[test]
    fn every_argument_that_takes_names_asks_for_them() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for kind in ["nodes", "users", "tokens", "keys", "targets"] {
                let places = ARGUMENTS.iter().filter(|named| named.names.word() == kind);
                let places = places.count();
                assert_eq!(asks(&script, shell, kind), places, "{shell}: {kind}");
            }
        }
    }

    #[test]
    fn running_nodes_are_completed_after_every_other_node() {
        for (shell, place) in [
            (Shell::Bash, "                --node)"),
            (Shell::Zsh, "--node="),
            (Shell::Fish, " -l node "),
        ] {
            let script = script(shell);
            // `expose` means a node of the overlay.
            let places = script.matches(place).count() - 1;
            let asking = asks(&script, shell, "running");
            assert!(
                places >= 5 && places == asking,
                "{shell}: {places} places, {asking} that ask"
            );
        }
    }
}
