//! The plugs of this program that every node has, whatever its configuration.

use hermes_areas::AreasPlug;
use hermes_config::{DocumentForm, Loaded, Problems, Unsound};
use hermes_plug::Plugs;

/// SOCKS, the relay, functions on the way of exchanges, the cache, pacing, translation, objects of several origins, and areas without a node that could follow them.
pub fn plugs() -> Plugs {
    let ways = hermes_relay::register(hermes_socks::register(Plugs::new()));
    let functions = hermes_functions::register(ways);
    let caches = hermes_cache::register(functions);
    let paced = hermes_pace::register(caches);
    let translated = hermes_translate::register(paced);
    let fetched = hermes_origins::register(translated);
    hermes_areas::register(fetched, &AreasPlug::default())
}

/// The form of documents: paths in the settings of plugs are those of the file that names them, as everywhere. A plug that is not here is told by
/// [`check`].
pub fn form() -> DocumentForm {
    plugs().open_form()
}

/// Everything that is wrong with a configuration for this program.
///
/// # Errors
/// The problems, each with its place.
pub fn check(loaded: Loaded) -> Result<(), Problems> {
    hermes_node::check_with(loaded, &plugs())
}

/// Everything that is wrong with a configuration whose form is not right.
pub fn all_mistakes(unsound: Unsound) -> Problems {
    hermes_node::all_mistakes(unsound, &plugs())
}
