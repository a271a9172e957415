//! The values of `--format`.

/// Output of commands whose JSON is for scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text for people to read
    #[default]
    Text,
    /// JSON for programs to read
    Json,
}

/// Output of commands whose JSON and YAML follow a published contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ContractFormat {
    /// Text for people to read
    #[default]
    Text,
    /// JSON for programs to read
    Json,
    /// YAML for programs to read
    Yaml,
}

impl From<Format> for ContractFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => ContractFormat::Text,
            Format::Json => ContractFormat::Json,
        }
    }
}

impl ContractFormat {
    /// Renders a value as a document. Text is rendered as JSON, because values have no other text form.
    pub fn render(self, value: &serde_json::Value) -> String {
        match self {
            ContractFormat::Yaml => crate::yaml::emit(value),
            ContractFormat::Text | ContractFormat::Json => format!("{value:#}\n"),
        }
    }
}
