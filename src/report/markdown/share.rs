//! Divides the budget fairly.

/// Renders one piece per entry of `sizes`, together at most `room` bytes. Small pieces get the size they ask for; the others
/// divide the rest evenly, and room that one does not use goes to the next.
pub fn share(room: usize, sizes: &[usize], mut piece: impl FnMut(usize, usize) -> String) -> Vec<String> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|index| sizes[*index]);
    let mut pieces = vec![String::new(); sizes.len()];
    let mut rest = room;
    for (done, index) in order.into_iter().enumerate() {
        let part = rest / (sizes.len() - done);
        let text = piece(index, part);
        debug_assert!(text.len() <= part, "{} of {part} bytes", text.len());
        if text.len() <= part {
            rest -= text.len();
            pieces[index] = text;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_whole_and_large_ones_share_the_rest() {
        let sizes = [100, 3, 50, 7];
        let pieces = share(40, &sizes, |index, room| "x".repeat(sizes[index].min(room)));
        let rendered: Vec<usize> = pieces.iter().map(String::len).collect();
        assert_eq!(rendered, [15, 3, 15, 7]);
    }
}
