//! Where the document in force is written.

use hermes_config::Places;

use crate::process::Node;

impl Node {
    /// The places of the document in force. They are read again when someone asks, because they take ten times the memory of the
    /// text.
    ///
    /// # Errors
    /// Its file says something else by now, or no one has said where it is written, in words.
    pub(crate) fn written_places(&self) -> Result<Places, String> {
        let in_force = self.changing.lock().documents.current.clone();
        let Some(file) = self.source.file() else {
            let places = in_force.places.as_deref().cloned();
            return places.ok_or_else(|| "the configuration in force is in no file".to_owned());
        };
        let form = self.plugs.form();
        let loaded = form.load(file, &|name| std::env::var(name).ok());
        let same = loaded
            .ok()
            .filter(|loaded| self.source.revision(loaded, in_force.number).text == in_force.text);

        same.map(|loaded| loaded.places).ok_or_else(|| {
            let file = file.display();
            format!("{file} differs from the configuration in force")
        })
    }
}
