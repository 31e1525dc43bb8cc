//! Bodies say why: a reader who meets an order that must not change, a rule of a specification or a cost needs its reason on the spot.

use std::ops::Range;

use crate::budget::Sized;
use crate::rust::Rust;
use crate::tree::Tree;

/// Lines of code in bodies for each line of comment in them, in the production code of all crates. Code that is known to read well
/// has 10 to 11.
const CODE_LINES: usize = 12;

/// The excess over the budget, if there is any.
pub fn few(tree: &Tree) -> Option<Sized> {
    let mut counted = Counted::default();
    for file in tree.files.iter().filter(|file| file.is_production()) {
        if let Some(rust) = &file.rust {
            counted.add(rust);
        }
    }

    let size = counted.code.checked_div(counted.comments)?;
    (size > CODE_LINES).then(|| Sized {
        subject: "reasons".to_owned(),
        path: "crates".to_owned(),
        line: 0,
        size,
        unit: "lines of code in bodies for each line of comment",
        budget: CODE_LINES,
        remedy: "say the reason where a reader would stop".to_owned(),
    })
}

/// Lines in bodies.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    code: usize,
    comments: usize,
}

impl Counted {
    fn add(&mut self, rust: &Rust) {
        let mut counted_until = 0;
        for function in rust.functions() {
            // A function within another is counted with it.
            if function.body.start < counted_until {
                continue;
            }

            counted_until = function.body.end;
            self.code += written(&rust.production, &function.body);
            self.comments += written(&rust.comments, &function.body);
        }
    }
}

/// The lines of a view in which something is written.
fn written(view: &str, body: &Range<usize>) -> usize {
    let text = view.get(body.clone()).unwrap_or_default();
    text.lines().filter(|line| !line.trim().is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_bodies_are_counted_once() {
        let text = "/// Said outside.\nfn a() {\n    // Why.\n    fn b() {\n        c(); // Here.\n    }\n}\nstruct D; // Not here.\n";
        let mut counted = Counted::default();
        counted.add(&Rust::scan(text));
        let (code, comments) = (4, 2);
        assert_eq!(counted, Counted { code, comments });
    }
}
