//! A file that is nearly all holes: a revert must keep them, and a diff must not write them out.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::{Bench, Group, Place};
use crate::support::Result;
use crate::support::contender::{Decree, Keeper, Reverter};
use crate::support::interrupt::{self, progress};
use crate::support::results::{Goal, Row};
use crate::support::units::Unit::{Bytes, Seconds};

pub const GROUP: Group = Group {
    rows: &["sparse-disk", "sparse-diff"],
    seconds: |scale| scale.sparse as f64 / 30e6,
    measure,
    is_series: false,
};

const BLOCK: usize = 4096;
/// As much as the data of both sides, many times over, and next to nothing for a file of gigabytes.
const SMALL: Goal = Goal::Below((1 << 20) as f64);

fn measure(bench: &Bench) -> Result<()> {
    let Place { _dir, runner } = bench.place("sparse")?;
    let size = bench.scale().sparse;
    progress(&format!("sparse file of {}", Bytes.format(size as f64)));
    fs::create_dir_all(runner.tree())?;
    let path = runner.tree().join("disk.img");
    let file = File::create(&path)?;
    file.set_len(size)?;
    file.write_all_at(&[b'x'; BLOCK], size / 2)?;
    let mut decree = Decree::new(runner.clone(), bench.options.decree.clone());
    decree.forget()?;
    let first = decree.checkpoint()?;

    OpenOptions::new().write(true).open(&path)?.write_all_at(&[b'y'; BLOCK], size / 4)?;
    let diff = runner.scratch().join("changes.diff");
    let compare = decree.diff(&diff)?;
    let diff_bytes = fs::metadata(&diff)?.len();
    fs::remove_file(diff)?;
    let revert = decree.revert()?;
    check(&path, size)?;

    let on_disk = fs::metadata(&path)?.blocks() * 512;
    let apparent = Bytes.format(size as f64);
    bench.report(Row::new(
        "sparse-disk",
        format!("sparse {apparent}: on disk after revert"),
        Bytes,
        on_disk as f64,
        SMALL,
    ));
    let [first, compare, revert] = [first, compare, revert].map(|cost| cost.elapsed.as_secs_f64());
    let note = format!(
        "checkpoint {}, diff {}, revert {}; store {}",
        Seconds.format(first),
        Seconds.format(compare),
        Seconds.format(revert),
        Bytes.format(decree.store_size()?.allocated as f64),
    );
    let what = format!("sparse {apparent}: diff of one block");
    bench.report(Row::new("sparse-diff", what, Bytes, diff_bytes as f64, SMALL).note(note));
    Ok(())
}

/// An error unless the file is as it was created: one block, and zeros.
fn check(path: &Path, size: u64) -> Result<()> {
    let mut file = File::open(path)?;
    let (mut buffer, mut at) = (vec![0; 1 << 20], 0);
    loop {
        interrupt::check()?;
        let read = file.read(&mut buffer)?;
        let data = |place: u64| (size / 2..size / 2 + BLOCK as u64).contains(&place);
        // Blocks are aligned, so that one look at each is enough for what is expected, and a comparison for its bytes.
        for (number, block) in buffer[..read].chunks(BLOCK).enumerate() {
            let expected = if data(at + (number * BLOCK) as u64) { b'x' } else { 0 };
            if block.iter().any(|byte| *byte != expected) {
                return Err(format!("the revert did not restore {}", path.display()).into());
            }
        }
        if read == 0 {
            break;
        }
        at += read as u64;
    }
    if at == size {
        Ok(())
    } else {
        Err(format!("the reverted file has {at} bytes instead of {size}").into())
    }
}
