//! Where the document in force is written.

use hermes_config::Places;

use crate::administered::Node;
use crate::change::Revision;

impl Node {
    /// The places of the document in force. They are read again when someone asks, because they take ten times the memory of the
    /// text.
    ///
    /// # Errors
    /// Its file says something else by now, in words.
    pub(crate) fn written_places(&self) -> Result<Places, String> {
        let in_force = self.changing.lock().documents.current.clone();
        let form = self.plugs.form();
        let loaded = form.load(&self.file, &|name| std::env::var(name).ok());
        let same = loaded
            .ok()
            .filter(|loaded| Revision::of(loaded, in_force.number).text == in_force.text);

        same.map(|loaded| loaded.places).ok_or_else(|| {
            let file = self.file.display();
            format!("{file} says something else than what is in force")
        })
    }
}
