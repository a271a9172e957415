//! What every step of the pipeline reads and none changes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use crate::checkpoint::workspace::Workspace;
use crate::error::Result;
use crate::message::Inbox;
use crate::process::environment::child_environment;
use crate::project::{Config, Layout, Lock, Project, RoutineName};
use crate::routine::Routines;

/// Options of the command line that override the config.
#[derive(Clone, Debug, Default)]
pub struct RunOverrides {
    /// The limit of every attempt, whatever config and front matter say.
    pub timeout: Option<Duration>,
    /// The number of retries, whatever the config says.
    pub max_retries: Option<u32>,
    /// The routine of messages and specs that name none; the router is not asked then.
    pub routine: Option<RoutineName>,
}

/// The project as one command of decree sees it.
pub(super) struct PipelineContext<'p> {
    pub layout: &'p Layout,
    pub config: &'p Config,
    pub workspace: &'p Workspace,
    pub lock: &'p Lock,
    pub overrides: RunOverrides,
    pub routines: Routines,
    pub inbox: Inbox,
    /// What routines, hooks and the router inherit.
    pub environment: BTreeMap<OsString, OsString>,
}

impl<'p> PipelineContext<'p> {
    pub fn new(
        project: &'p Project,
        workspace: &'p Workspace,
        lock: &'p Lock,
        overrides: RunOverrides,
    ) -> Result<Self> {
        let (layout, config) = (&project.layout, &project.config);
        Ok(PipelineContext {
            layout,
            config,
            workspace,
            lock,
            overrides,
            routines: Routines::of(project)?,
            inbox: Inbox::of(layout),
            environment: child_environment(std::env::vars_os(), &config.pass_env),
        })
    }

    /// The limit of an attempt that neither message nor spec limits; zero means none.
    pub fn timeout(&self) -> Duration {
        self.overrides.timeout.unwrap_or(self.config.timeout)
    }

    pub fn max_retries(&self) -> u32 {
        self.overrides.max_retries.unwrap_or(self.config.max_retries)
    }
}
