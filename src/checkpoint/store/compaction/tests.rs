use std::collections::BTreeMap;

use super::*;

/// A store, and all content that was added to it.
struct Sample {
    dir: tempfile::TempDir,
    store: Store,
    contents: BTreeMap<ContentHash, Vec<u8>>,
}

/// Bytes that do not compress, other ones for each seed.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
    .take(length)
    .collect()
}

impl Sample {
    fn new() -> Sample {
        let dir = tempfile::tempdir().unwrap();
        Sample { store: Store::at(dir.path()), dir, contents: BTreeMap::new() }
    }

    /// One pack with these contents, whether or not another has them.
    fn pack(&mut self, contents: &[Vec<u8>]) -> Vec<ContentHash> {
        let writer = self.store.pack_writer();
        let mut frames = writer.frame_writer().unwrap();
        let mut hashes = Vec::new();
        for content in contents {
            let hash = ContentHash::of(content);
            frames.add(writer.claim_copy(&hash).unwrap(), content).unwrap();
            self.contents.insert(hash, content.clone());
            hashes.push(hash);
        }
        frames.flush().unwrap();
        drop(frames);
        writer.finish().unwrap();
        hashes
    }

    /// Changes one byte of a pack.
    fn damage(path: &Path, at: usize) -> Vec<u8> {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 1;
        fs::write(path, &bytes).unwrap();
        bytes
    }

    fn packs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    fn bytes(&self) -> u64 {
        self.packs().iter().map(|path| path.metadata().unwrap().len()).sum()
    }

    fn plan(&self, needed: &[ContentHash]) -> CompactionPlan<'_> {
        self.store.plan_compaction(needed.iter().copied().collect()).unwrap()
    }

    fn compact(&self, needed: &[ContentHash]) -> CompactionReport {
        let before = self.bytes();
        let plan = self.plan(needed);
        let (expected, done) = (plan.expected(), plan.run().unwrap());
        assert_eq!((done.before, done.after), (before, self.bytes()), "the report is what is on disk");
        assert_eq!((done.removed, done.rewritten), (expected.removed, expected.rewritten));
        assert!(done.after <= expected.after + 100, "{done:?} is worse than {expected:?}");
        done
    }

    #[track_caller]
    fn assert_has(&self, needed: &[ContentHash]) {
        // As a later process finds it.
        let store = Store::at(self.dir.path());
        for hash in needed {
            assert_eq!(store.read(hash).unwrap(), self.contents[hash]);
        }
    }
}

fn texts(from: u32, to: u32) -> Vec<Vec<u8>> {
    (from..to).map(|n| format!("content {n}\n").repeat(40).into_bytes()).collect()
}

#[test]
fn a_pack_that_nothing_needs_goes_and_one_that_is_needed_whole_stays_as_it_is() {
    let mut sample = Sample::new();
    let kept = sample.pack(&texts(0, 50));
    let packs = sample.packs();
    let gone = sample.pack(&texts(100, 150));
    let done = sample.compact(&kept);
    assert_eq!((done.removed, done.rewritten, done.dropped), (1, 0, 50));
    assert_eq!(sample.packs(), packs);
    sample.assert_has(&kept);
    assert!(sample.store.read(&gone[0]).is_err());
    assert_eq!(
        sample.compact(&kept),
        CompactionReport { before: done.after, after: done.after, ..CompactionReport::default() }
    );
}

#[test]
fn a_pack_is_rewritten_only_if_a_quarter_or_more_of_it_is_garbage() {
    let mut sample = Sample::new();
    let all = sample.pack(&(0..100).map(|n| noise(10_000, n)).collect::<Vec<_>>());
    assert_eq!(sample.compact(&all[..80]).rewritten, 0);
    let done = sample.compact(&all[..70]);
    assert_eq!((done.rewritten, done.dropped), (1, 30));
    assert!((280_000..320_000).contains(&done.freed()), "{done:?}");
    sample.assert_has(&all[..70]);
    assert!(sample.store.read(&all[99]).is_err());
}

#[test]
fn many_small_packs_become_one_and_few_do_not() {
    let mut sample = Sample::new();
    let mut all: Vec<ContentHash> = (0..7).flat_map(|n| sample.pack(&texts(n, n + 1))).collect();
    assert_eq!(sample.compact(&all).rewritten, 0);
    all.extend(sample.pack(&[Vec::new()]));
    let done = sample.compact(&all);
    assert_eq!((done.rewritten, done.dropped, sample.packs().len()), (8, 0, 1));
    assert!(done.after < done.before, "{done:?}");
    sample.assert_has(&all);
    assert_eq!(sample.compact(&all).rewritten, 0);
}

#[test]
fn large_contents_go_through_frame_by_frame() {
    let mut sample = Sample::new();
    let large = [noise(3 * FRAME + 17, 1), noise(2 * FRAME, 2), b"line\n".repeat(FRAME)];
    let all = sample.pack(&[&large[..], &texts(0, 3)].concat());
    let kept = [all[0], all[2], all[4]];
    assert_eq!(sample.compact(&kept).rewritten, 1);
    sample.assert_has(&kept);
}

/// GCC-06. As a compaction that was killed before it removed the old packs leaves it.
#[test]
fn what_is_there_twice_stays_once_in_the_newer_pack() {
    let mut sample = Sample::new();
    let old = sample.pack(&texts(0, 100));
    let new = sample.pack(&texts(0, 60));
    let done = sample.compact(&new);
    assert_eq!((done.removed, done.rewritten, sample.packs().len()), (1, 0, 1));
    sample.assert_has(&new);
    assert!(sample.store.read(&old[99]).is_err());
}

/// GCC-06. What would be written is there already, under the very name that it would get.
#[test]
fn a_pack_that_is_rewritten_as_itself_is_not_removed() {
    let mut sample = Sample::new();
    let all: Vec<ContentHash> = (0..8).flat_map(|n| sample.pack(&texts(n, n + 1))).collect();
    let plan = sample.plan(&all);
    plan.rewrite(&plan.batches[0]).unwrap();
    // Cut off here; and now the same again, by a plan that knows nothing of the new pack.
    plan.run().unwrap();
    assert_eq!(sample.packs().len(), 1);
    sample.assert_has(&all);
    let one = CompactionPlan { batches: vec![vec![0]], ..sample.plan(&all) };
    one.run().unwrap();
    sample.assert_has(&all);
}

#[test]
fn a_damaged_copy_is_never_what_stays() {
    let mut sample = Sample::new();
    let all = sample.pack(&texts(0, 100));
    let first = sample.packs();
    sample.pack(&texts(0, 60));
    let second = sample.packs().into_iter().find(|path| !first.contains(path)).unwrap();
    Sample::damage(&second, 20);
    let plan = sample.plan(&all[..60]);
    let error = plan.run().unwrap_err();
    assert_eq!(error.kind(), crate::error::ErrorKind::Integrity);
    assert_eq!(sample.packs().len(), 2, "{error}");
}

#[test]
fn damage_in_what_is_copied_is_an_error_and_everything_stays() {
    let mut sample = Sample::new();
    let all = sample.pack(&(0..100).map(|n| noise(10_000, n)).collect::<Vec<_>>());
    let path = sample.packs().pop().unwrap();
    let bytes = Sample::damage(&path, 5000);
    let plan = sample.plan(&all[..50]);
    assert_eq!(plan.run().unwrap_err().kind(), crate::error::ErrorKind::Integrity);
    assert_eq!(sample.packs(), std::slice::from_ref(&path));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_reader_goes_on_in_the_pack_that_took_the_place_of_its_own() {
    let mut sample = Sample::new();
    let large = noise(5 * FRAME + 100, 9);
    let all = sample.pack(&[&texts(0, 40)[..], std::slice::from_ref(&large), &texts(40, 80)[..]].concat());
    let needed = [&all[..3], &all[40..41]].concat();
    // Another process: it has read the packs, and half of a content.
    let other = Store::at(sample.dir.path());
    let mut reader = other.reader(&all[40]).unwrap();
    let mut half = vec![0; 2 * FRAME + 50];
    reader.read_exact(&mut half).unwrap();
    // Too little of it is garbage for it to be rewritten by itself.
    let plan = sample.plan(&needed);
    let plan = CompactionPlan { batches: vec![vec![0]], ..plan };
    plan.run().unwrap();
    reader.read_to_end(&mut half).unwrap();
    assert_eq!(half, large);
    assert_eq!(other.read(&all[1]).unwrap(), sample.contents[&all[1]]);
    assert_eq!(other.read(&all[50]).unwrap_err().kind(), crate::error::ErrorKind::Integrity);
}

#[test]
fn readers_see_no_damage_while_packs_come_and_go() {
    let mut sample = Sample::new();
    let all: Vec<ContentHash> = (0..40).flat_map(|n| sample.pack(&texts(n * 10, n * 10 + 10))).collect();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for start in 0..2 {
            let (dir, all, done) = (sample.dir.path(), &all, &done);
            scope.spawn(move || {
                let mut round = start;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let store = Store::at(dir);
                    for hash in all.iter().skip(round % 7).step_by(7) {
                        store.read(hash).unwrap();
                    }
                    round += 1;
                }
            });
        }
        for round in 0..60 {
            // Any pack, rewritten with others, again and again.
            let plan = sample.plan(&all);
            let count = plan.packs.len();
            let batch: Vec<usize> = (0..count).filter(|number| number % 3 == round % 3).collect();
            let batches = if batch.is_empty() { vec![vec![0]] } else { vec![batch] };
            CompactionPlan { batches, ..plan }.run().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    sample.assert_has(&all);
}
