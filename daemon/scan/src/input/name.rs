//! Names that a person can read: one that turns what stands beside it is refused.

use super::{At, Fault, quoted};

/// Refuses a name with a control, or with a mark that turns the direction of text (UAX 9): in a schema, a diff or a
/// report it would be read as another. What is only not seen, or looks like another letter, is no reason to refuse:
/// such a name is not plain, and its argument is locked.
pub(crate) fn check(name: &str, at: &str) -> Result<(), At> {
    if name.chars().any(turns) {
        let name = quoted(name);
        return Err((at.to_owned(), Fault::Turned { name }));
    }
    Ok(())
}

fn turns(character: char) -> bool {
    let marks = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    marks || character.is_control()
}
