//! The texts of an experiment: read from the disk, made by a program, or received from another machine.

use super::super::{Experiment, LabError};
use super::{Own, read};
use crate::scenario::{Files, Mistake, Texts};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The endings of the names of experiment files: as users write them, and with everything that they need in one file.
const ENDING: &str = ".toml";
const WHOLE: &str = ".experiment.json";

/// The texts of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Definition {
    /// Its name in errors.
    pub(super) file: String,
    pub(super) text: String,
    /// Name and text of the scenario, if it is in a separate file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scenario: Option<(String, String)>,
    /// The files that the scenario names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) files: Texts,
}

impl Definition {
    /// Returns whether a name refers to a file with an experiment.
    #[must_use]
    pub fn is_meant_by(name: &str) -> bool {
        name.ends_with(ENDING) || name.ends_with(WHOLE)
    }

    /// Reads a file, and the files that it names.
    ///
    /// # Errors
    /// [`LabError::Io`], or [`LabError::Definition`] for an error in its contents.
    pub fn load(path: &Path) -> Result<Definition, LabError> {
        let read =
            |path: &Path| std::fs::read_to_string(path).map_err(|error| LabError::at(path, error));
        let text = read(path)?;
        if path.to_string_lossy().ends_with(WHOLE) {
            let whole = serde_json::from_str(&text);
            return whole.map_err(|error| LabError::at(path, error.into()));
        }
        // Errors in the text are reported below.
        let named = |text: &str| -> Option<String> {
            let table: toml::Table = toml::from_str(text).ok()?;
            let name = table.get(read::TABLE)?.get("scenario")?;
            Some(name.as_str()?.to_owned())
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut definition = Definition {
            file: path.display().to_string(),
            scenario: match named(&text) {
                Some(name) => {
                    let path = folder.join(&name);
                    Some((path.display().to_string(), read(&path)?))
                }
                None => None,
            },
            text,
            files: Texts::new(),
        };
        let beside = match &definition.scenario {
            Some((file, _)) => Path::new(file).parent().unwrap_or(Path::new("")),
            None => folder,
        };
        let files = Files::Beside(beside.to_owned());
        (_, definition.files) = read::own(&definition, &files)?;
        // From now on the folder does not matter: an experiment stays the same in another folder.
        let name = |file: &str| {
            let name = Path::new(file).file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        definition.file = name(&definition.file);
        definition.scenario = definition.scenario.map(|(file, text)| (name(&file), text));
        Ok(definition)
    }

    /// Writes it with everything that it needs into one file of a folder. Returns the file's name.
    ///
    /// # Errors
    /// [`LabError::Io`]
    pub fn write(&self, folder: &Path) -> Result<String, LabError> {
        let name = self.experiment()?.id().replace('/', "-") + WHOLE;
        let path = folder.join(&name);
        let failed = |error| LabError::at(&path, error);
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        std::fs::write(&path, text).map_err(failed)?;
        Ok(name)
    }

    /// Creates a definition whose text is made by a program, and which is measured externally.
    ///
    /// # Errors
    /// [`LabError::Definition`] for an error in it.
    pub fn made(file: &str, text: &str) -> Result<Definition, LabError> {
        let definition = Definition {
            file: file.to_owned(),
            text: text.to_owned(),
            scenario: None,
            files: Texts::new(),
        };
        definition.experiment()?;
        Ok(definition)
    }

    /// Returns the experiment. Choice: it stays in memory for as long as the program runs, as built-in ones do; a
    /// program reads few.
    pub(in crate::experiment) fn experiment(&self) -> Result<&'static Own, LabError> {
        static KNOWN: Mutex<BTreeMap<Definition, &'static Own>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = known.get(self) {
            return Ok(own);
        }
        let (own, _) = read::own(self, &Files::Given(self.files.clone()))?;
        let own: &'static Own = Box::leak(Box::new(own));
        known.insert(self.clone(), own);
        Ok(own)
    }
}

/// Returns a text that stays in memory for as long as the program runs, without duplicates. Choice: everywhere else,
/// names of coordinates, measures and claims belong to built-in experiments, which live as long.
pub(super) fn intern(text: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(text) = known.get(text) {
        return text;
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    known.insert(kept);
    kept
}

impl From<Mistake> for LabError {
    fn from(mistake: Mistake) -> LabError {
        LabError::Definition(mistake)
    }
}
