//! The requests of the API, as `METHOD path`.
//!
//! | Request | Meaning |
//! |---|---|
//! | `POST /areas/v1/paths` with `{"from": "a", "to": "b"}` | a path, provisioned at all places of its way; the same again changes nothing |
//! | `GET /areas/v1/paths` | the paths of the user |
//! | `GET /areas/v1/paths/NAME` | one of them |
//! | `DELETE /areas/v1/paths/NAME` | withdraws it at all places |
//! | `PUT /areas/v1/parts/NAME` with the plan | between nodes: the part of a path at this place |
//! | `DELETE /areas/v1/parts/NAME` | between nodes: withdraws it |

use http::Method;

/// The beginning of all paths of the API.
const ROOT: &str = "/areas/v1/";

/// Bytes of a name of a path: two names of areas.
#[doc(alias = "bound")]
const NAME: usize = 160;

/// A request of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Ask,
    List,
    Show(String),
    Withdraw(String),
    /// From the node where the path begins.
    Provision(String),
    /// From the node where the path began.
    Dismantle(String),
}

/// A request that is none of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoCall {
    NotFound,
    /// The methods that there are.
    NotAllowed(&'static str),
}

impl Call {
    /// The call of a method and a path with its query, which the API has none of.
    pub(crate) fn of(method: &Method, path: &str) -> Result<Self, NoCall> {
        // A handler may stand below any prefix.
        let at = path.find(ROOT).ok_or(NoCall::NotFound)?;
        let rest = &path[at + ROOT.len()..];
        let (kind, name) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_name(name) {
            return Err(NoCall::NotFound);
        }
        let name = name.to_owned();
        match (kind, name.is_empty(), method.as_str()) {
            ("paths", true, "POST") => Ok(Self::Ask),
            ("paths", true, "GET") => Ok(Self::List),
            ("paths", true, _) => Err(NoCall::NotAllowed("GET, POST")),
            ("paths", false, "GET") => Ok(Self::Show(name)),
            ("paths", false, "DELETE") => Ok(Self::Withdraw(name)),
            ("paths", false, _) => Err(NoCall::NotAllowed("GET, DELETE")),
            ("parts", false, "PUT") => Ok(Self::Provision(name)),
            ("parts", false, "DELETE") => Ok(Self::Dismantle(name)),
            ("parts", false, _) => Err(NoCall::NotAllowed("PUT, DELETE")),
            _ => Err(NoCall::NotFound),
        }
    }
}

/// Names are written without escapes: there is one spelling of each.
fn is_name(name: &str) -> bool {
    let is_usual = |letter: char| letter.is_ascii_alphanumeric() || "-_.~".contains(letter);
    name.len() <= NAME && name.chars().all(is_usual)
}
