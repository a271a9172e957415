//! An artifact to import from: a directory, or a ZIP archive as CI systems provide it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use walkdir::WalkDir;
use zip::ZipArchive;

use super::stage::open;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::path::DECREE_DIR;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::history::find_unique;
use crate::humanize::count;
use crate::message::MessageId;
use crate::project::Layout;
use crate::sanitize::one_line;

/// The largest run that is extracted, against archives that are made to fill the disk.
const LARGEST: u64 = 16 << 30;
/// The limit for the number of files in an archive.
const MOST: usize = 100_000;
/// The deepest nesting of an entry.
const DEEPEST: usize = 20;

/// An artifact that is open for reading.
pub struct ArtifactSource {
    path: PathBuf,
    format: ArtifactFormat,
}

enum ArtifactFormat {
    Directory,
    Archive(Box<ZipArchive<BufReader<File>>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedRun {
    pub id: MessageId,
    /// Its directory within the artifact; empty if the artifact is the run.
    prefix: PathBuf,
}

impl ArtifactSource {
    /// Opens a directory or a ZIP archive. An archive with an entry that leads out of it is refused: no CI system writes one.
    pub fn open(path: &Path) -> Result<ArtifactSource> {
        let invalid = |why: String| {
            Error::project(format!("{} is not an artifact: {why}", path.display()))
                .hint("name the downloaded directory or the .zip file")
        };
        let format = if path.is_dir() {
            ArtifactFormat::Directory
        } else {
            let file = File::open(path).at("open", path)?;
            let archive =
                ZipArchive::new(BufReader::new(file)).map_err(|error| invalid(error.to_string()))?;
            if archive.len() > MOST {
                return Err(invalid(format!("it has {}, more than {MOST}", count(archive.len(), "file"))));
            }
            for name in archive.file_names() {
                let name = name.map_err(|error| invalid(error.to_string()))?;
                if leads_out(&name) {
                    return Err(invalid(format!("its entry '{}' is not a path within it", one_line(&name))));
                }
            }
            ArtifactFormat::Archive(Box::new(archive))
        };
        Ok(ArtifactSource { path: path.to_owned(), format })
    }

    /// The runs in the artifact, in order. A `.decree/` directory or a single run's directory is accepted as well.
    pub fn runs(&mut self) -> Result<Vec<StagedRun>> {
        let mut found = BTreeMap::new();
        let mut add = |prefix: PathBuf| {
            let mut ids = prefix.iter().map(|name| name.to_str().and_then(MessageId::parse));
            let id = ids.next_back().flatten();
            // A directory inside a run was written by its routine and is not a run, whatever its name.
            if let Some(id) = id.filter(|_| ids.all(|id| id.is_none())) {
                found.entry(id.clone()).or_insert(StagedRun { id, prefix });
            }
        };
        match &mut self.format {
            ArtifactFormat::Directory => {
                let runs = Path::new(Layout::RUNS);
                for place in [runs, &Path::new(DECREE_DIR).join(runs), Path::new("")] {
                    let Ok(entries) = fs::read_dir(self.path.join(place)) else { continue };
                    for entry in
                        entries.flatten().filter(|entry| entry.path().join(CheckpointDir::RESULT).exists())
                    {
                        add(place.join(entry.file_name()));
                    }
                }
            }
            ArtifactFormat::Archive(archive) => {
                for name in archive.file_names().flatten() {
                    let Some(path) = inner_path(&name) else { continue };
                    if path.ends_with(CheckpointDir::RESULT) {
                        add(path.parent().map(Path::to_owned).unwrap_or_default());
                    }
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// The runs that `id` names, a chain or one run; all without an id.
    pub fn choose(&mut self, id: Option<&str>) -> Result<Vec<StagedRun>> {
        let runs = self.runs()?;
        let Some(id) = id else { return Ok(runs) };
        let of_chain: Vec<StagedRun> =
            runs.iter().filter(|run| run.id.chain.to_string() == id).cloned().collect();
        if !of_chain.is_empty() {
            return Ok(of_chain);
        }
        let name = |run: &StagedRun| run.id.to_string();
        let found = find_unique(&runs, id, |run| vec![name(run)])?.ok_or_else(|| {
            Error::project(format!("no run '{id}' in {}", self.path.display()))
                .details(runs.iter().map(name).collect(), 20)
                .hint("`decree apply --from …` without an id lists them")
        })?;
        Ok(vec![found.clone()])
    }

    /// Writes the files of a run into the empty directory `target`.
    pub fn extract(&mut self, run: &StagedRun, target: &Path) -> Result<()> {
        let mut left = LARGEST;
        match &mut self.format {
            ArtifactFormat::Directory => copy(&self.path.join(&run.prefix), target, &mut left),
            ArtifactFormat::Archive(archive) => {
                for index in 0..archive.len() {
                    let broken = |error| {
                        Error::project(format!("{} is damaged", self.path.display())).caused_by(error)
                    };
                    let mut entry = archive.by_index(index).map_err(broken)?;
                    let path = entry.name().ok().and_then(|name| inner_path(&name));
                    let inner = path.as_deref().and_then(|path| path.strip_prefix(&run.prefix).ok());
                    if let Some(inner) = inner.filter(|_| entry.is_file()) {
                        write(&mut entry, &target.join(inner), &mut left)?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Whether an entry names something outside of the archive. GitHub does not make such archives.
fn leads_out(name: &str) -> bool {
    let is_out = |part| matches!(part, Component::ParentDir | Component::RootDir | Component::Prefix(_));
    name.contains('\0') || Path::new(name).components().any(is_out)
}

/// The path of an entry, unless it is not plain or too deep to belong to a run.
fn inner_path(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && !name.contains(['\\', '\0']) && path.components().count() <= DEEPEST).then(|| path.to_owned())
}

/// Copies the regular files of a directory. Links are not followed.
fn copy(from: &Path, to: &Path, left: &mut u64) -> Result<()> {
    for entry in WalkDir::new(from).max_depth(DEEPEST + 1) {
        let entry = entry.at("read", from)?;
        if let Some(mut file) = open(entry.path()) {
            let inside = entry.path().strip_prefix(from).expect("an entry is below the start of its walk");
            write(&mut file, &to.join(inside), left)?;
        }
    }
    Ok(())
}

fn write(from: &mut impl Read, to: &Path, left: &mut u64) -> Result<()> {
    let parent = to.parent().expect("the path is below the target");
    fs::create_dir_all(parent).at("create", parent)?;
    let mut file = atomic::create_new(to).at("create", to)?;
    // Reads one byte more than allowed, to detect that there is more.
    let written = io::copy(&mut from.take(*left + 1), &mut file).at("write", to)?;
    *left =
        left.checked_sub(written).ok_or_else(|| Error::failed("the artifact contains more than 16 GiB"))?;
    file.sync_all().at("write", to)
}
