//! A small deterministic random number generator, so that every run of the benchmark builds the same tree.

/// splitmix64: one multiplication chain a number, and any seed is a good seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for item `index` of `purpose`, so that items can be made in any order and in parallel.
    pub fn for_item(purpose: u64, index: usize) -> Self {
        let mut random = Self::new(purpose.wrapping_mul(0xd1b5_4a32_d192_ed03) ^ index as u64);
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, every one as likely as the next.
    pub fn below(&mut self, bound: usize) -> usize {
        scale(self.next() >> 32, bound)
    }

    /// A number below `bound`, small ones far likelier: names in source code are used about like this.
    pub fn skewed(&mut self, bound: usize) -> usize {
        let uniform = self.next() >> 32;
        let squared = (uniform * uniform) >> 32;
        scale((squared * uniform) >> 32, bound)
    }

    /// True in `percent` of the cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, S: AsRef<str>>(&mut self, items: &'a [S]) -> &'a str {
        items[self.below(items.len())].as_ref()
    }

    pub fn pick_skewed<'a, S: AsRef<str>>(&mut self, items: &'a [S]) -> &'a str {
        items[self.skewed(items.len())].as_ref()
    }

    /// A draw from the log-normal distribution with this median, by the method of Box and Muller.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let radius = (-2.0 * unit(self.next()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * unit(self.next())).cos();
        median * (sigma * normal).exp()
    }
}

/// Brings a fraction of 2^32 to the range below `bound`.
fn scale(fraction: u64, bound: usize) -> usize {
    ((fraction * bound as u64) >> 32) as usize
}
