//! A page in the text format of Prometheus.
//!
//! A family is announced once by `# HELP` and `# TYPE`, and its samples follow without another family between them. The
//! names of metrics end with their unit, and with `_total` for counters.

use std::fmt::{Display, Write};

/// The page under construction.
#[derive(Default)]
pub struct Page {
    text: String,
    /// The family whose samples follow.
    name: String,
}

impl Page {
    /// Begins a family of samples.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) -> &mut Page {
        name.clone_into(&mut self.name);
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        self
    }

    /// Adds a sample to the last family.
    pub fn sample(&mut self, labels: &[(&str, &dyn Display)], value: impl Display) {
        let mut text = String::new();
        for (key, value) in labels {
            let separator = if text.is_empty() { '{' } else { ',' };
            let _ = write!(text, "{separator}{key}=\"{}\"", escaped(&value.to_string()));
        }
        if !text.is_empty() {
            text.push('}');
        }
        let name = self.name.clone();
        self.line(format_args!("{name}{text} {value}"));
    }

    /// Adds a family of one sample that can rise and fall.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help).sample(&[], value);
    }

    /// Adds a family of one sample that only grows.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help).sample(&[], value);
    }

    /// Returns the text of the page.
    pub fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

/// Escapes a label's value as the format requires.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
