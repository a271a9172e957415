//! Shares room out fairly.

/// Makes a piece for each of `wants`, and all of them together no longer than `room`. The small ones get what they want; the
/// others share what is left evenly, and what one leaves unused goes to the next.
pub fn share(room: usize, wants: &[usize], mut piece: impl FnMut(usize, usize) -> String) -> Vec<String> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|index| wants[*index]);
    let mut pieces = vec![String::new(); wants.len()];
    let mut rest = room;
    for (done, index) in order.into_iter().enumerate() {
        let part = rest / (wants.len() - done);
        let made = piece(index, part);
        debug_assert!(made.len() <= part, "{} of {part} bytes", made.len());
        if made.len() <= part {
            rest -= made.len();
            pieces[index] = made;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_get_all_they_want_and_the_large_share_the_rest() {
        let wants = [100, 3, 50, 7];
        let pieces = share(40, &wants, |index, room| "x".repeat(wants[index].min(room)));
        let sizes: Vec<usize> = pieces.iter().map(String::len).collect();
        assert_eq!(sizes, [15, 3, 15, 7]);
    }
}
