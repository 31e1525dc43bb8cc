//! Estimates of builtins that follow paths through values or compare each with each: few bytes of a client can hold very many.

use std::collections::BTreeSet;
use std::vec::IntoIter;

use regorus::Value;

use crate::lengths::{RESULT, length_as_text, text};

/// Bytes of one step of a path, in the interpreter.
const STEP: usize = 24;

/// Steps of one path. The interpreter follows it by recursion, and a thread that runs out of stack ends the node.
#[doc(alias = "bound")]
const DEPTH: usize = 256;

/// `walk`: a path and a value for everything within a value.
pub(crate) fn walked(operands: &[Value]) -> Option<usize> {
    sum_within(operands.first()?, |_, depth| (depth + 4) * STEP)
}

/// `json.marshal_with_options`: everything has a line of its own, which begins with as many indents as it is deep.
pub(crate) fn written_in_lines(operands: &[Value]) -> Option<usize> {
    let options = operands.get(1)?.as_object().ok()?;
    let length = |name: &str| {
        let given = options
            .iter()
            .find(|(key, _)| text(Some(key)) == Some(name));
        given.and_then(|(_, value)| text(Some(value))).map(str::len)
    };
    let prefix = length("prefix").unwrap_or(0);
    // The interpreter writes two spaces for each first.
    let indent = length("indent").unwrap_or(1).max(2);

    // Containers end on a line of their own.
    let line = |depth: usize| 2 * depth.saturating_mul(indent).saturating_add(prefix);
    sum_within(operands.first()?, |value, depth| {
        let own = match value {
            Value::Array(_) | Value::Set(_) | Value::Object(_) => 8,
            other => length_as_text(other, RESULT),
        };
        own.saturating_add(line(depth))
    })
}

/// Sums over a value and everything within it, each with its depth, up to a little more than is allowed.
fn sum_within(value: &Value, size: impl Fn(&Value, usize) -> usize) -> Option<usize> {
    let mut left = vec![(value, 0)];
    let mut sum = 0_usize;
    while let Some((value, depth)) = left.pop() {
        sum = sum.saturating_add(size(value, depth));
        match value {
            Value::Array(array) => left.extend(array.iter().map(|inner| (inner, depth + 1))),
            Value::Set(set) => left.extend(set.iter().map(|inner| (inner, depth + 1))),
            Value::Object(object) => {
                let inner = object.iter().flat_map(|(key, value)| [key, value]);
                left.extend(inner.map(|inner| (inner, depth + 1)));
            }
            _ => {}
        }

        if depth > DEPTH || left.len() > RESULT / STEP || sum > RESULT {
            return Some(usize::MAX);
        }
    }
    Some(sum)
}

/// `graph.reachable`: all neighbours of all nodes may wait at once.
pub(crate) fn reached(operands: &[Value]) -> Option<usize> {
    let graph = operands.first()?.as_object().ok()?;
    let edges: usize = graph.iter().map(|(_, neighbours)| length(neighbours)).sum();
    Some(edges.saturating_mul(STEP))
}

/// A node on a path, with the neighbours that were not visited yet.
struct Visit<'a> {
    node: &'a Value,
    left: IntoIter<&'a Value>,
}

/// `graph.reachable_paths`: twenty nodes, all connected to each other, have more paths than a machine has bytes. So the paths are
/// followed here, up to the bound.
pub(crate) fn reached_by_paths(operands: &[Value]) -> Option<usize> {
    let graph = operands.first()?.as_object().ok()?;
    let mut path: Vec<Visit<'_>> = Vec::new();
    let mut on_path = BTreeSet::new();
    let mut first = neighbours(operands.get(1)?).into_iter();
    let mut sum = 0_usize;

    loop {
        let next = match path.last_mut() {
            Some(visit) => visit.left.next(),
            None => first.next(),
        };
        let Some(node) = next else {
            let Some(visit) = path.pop() else {
                return Some(sum);
            };
            // Only off the path: other paths may pass through the same node.
            on_path.remove(visit.node);
            continue;
        };

        // Any node may end a path, and each path is a list of its own in the result.
        sum = sum.saturating_add((path.len() + 2) * STEP);
        if sum > RESULT || path.len() > DEPTH {
            return Some(usize::MAX);
        }
        if let Some(beside) = graph.get(node)
            && on_path.insert(node)
        {
            let left = neighbours(beside).into_iter();
            path.push(Visit { node, left });
        }
    }
}

fn neighbours(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(array) => array.iter().collect(),
        Value::Set(set) => set.iter().collect(),
        _ => Vec::new(),
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::Array(array) => array.len(),
        Value::Set(set) => set.len(),
        Value::Object(object) => object.len(),
        _ => 1,
    }
}

/// `json.filter` and `json.remove`: a path becomes objects within each other.
pub(crate) fn filtered(operands: &[Value]) -> Option<usize> {
    let steps = |path: &Value| match text(Some(path)) {
        Some(text) => text.matches('/').count(),
        None => length(path),
    };
    let deepest = neighbours(operands.get(1)?).into_iter().map(steps).max();
    (deepest? > DEPTH).then_some(usize::MAX)
}

/// `union`, `intersection` and `object.union_n` copy all that they have so far for each further one.
pub(crate) fn united(operands: &[Value]) -> Option<usize> {
    let all = neighbours(operands.first()?);
    let total: usize = all.iter().map(|one| length(one)).sum();
    Some(total.saturating_mul(all.len()))
}

/// Builtins that compare each element of one operand with each of the other.
pub(crate) fn compared(operands: &[Value]) -> Option<usize> {
    Some(length(operands.first()?).saturating_mul(length(operands.get(1)?)))
}

/// `regex.find_all_string_submatch_n`: a value for each group of each match.
pub(crate) fn found_with_groups(operands: &[Value]) -> Option<usize> {
    let groups = text(operands.first())?.matches('(').count() + 1;
    let matches = text(operands.get(1))?.len() + 1;
    // Without groups the matches are together no longer than the text.
    (groups > 1).then(|| groups.saturating_mul(matches).saturating_mul(STEP))
}
