//! The form that a subscriber accepts.

use hermes_proto::fields::Fields;
use http::header;

use super::Form;

/// The forms by their media types, those first that are taken where a subscriber likes several as much.
const FORMS: [Known; 7] = [
    Known("application/hermes-adu", Form::Native),
    Known("text/event-stream", Form::EventStream),
    Known("application/x-ndjson", Form::JsonLines),
    Known("application/ndjson", Form::JsonLines),
    Known("application/http", Form::Responses),
    Known("text/plain", Form::Lines),
    Known("application/octet-stream", Form::Octets),
];

/// A media type and its form.
struct Known(&'static str, Form);

/// The form that `Accept` likes best (RFC 9110, section 12.5.1); lines of text where anything will do, as for curl. `None`: there is no
/// form for it.
pub(crate) fn accepted(fields: &Fields) -> Option<Form> {
    let mut best: Option<Wish> = None;
    let mut takes_any = true;
    for line in fields.values(header::ACCEPT) {
        takes_any = false;
        let line = String::from_utf8_lossy(line.as_bytes()).to_ascii_lowercase();
        for range in line.split(',') {
            let Some(wish) = Wish::read(range) else {
                continue;
            };
            if best.as_ref().is_none_or(|best| wish.beats(best)) {
                best = Some(wish);
            }
        }
    }
    match best {
        Some(wish) => Some(wish.form),
        None => takes_any.then_some(Form::Lines),
    }
}

/// One media range that a form fits.
struct Wish {
    form: Form,
    weight: f32,
    /// Whether it names the form's own type.
    is_exact: bool,
}

impl Wish {
    fn read(range: &str) -> Option<Self> {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next()?;
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let weight = weight.map_or(Some(1.0), |weight| weight.parse().ok())?;
        let known = FORMS.iter().find(|known| known.0 == name);
        let form = match (known, name) {
            (Some(known), _) => known.1,
            (None, "*/*" | "text/*") => Form::Lines,
            (None, "application/*") => Form::JsonLines,
            (None, _) => return None,
        };
        (weight > 0.0).then_some(Self {
            form,
            weight,
            is_exact: known.is_some(),
        })
    }

    fn beats(&self, other: &Self) -> bool {
        let rank = |wish: &Self| {
            let place = FORMS.iter().position(|known| known.1 == wish.form);
            (wish.is_exact, std::cmp::Reverse(place))
        };
        self.weight > other.weight
            || (self.weight - other.weight).abs() < f32::EPSILON && rank(self) > rank(other)
    }
}
