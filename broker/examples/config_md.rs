//! Prints docs/config.md.

#[expect(clippy::print_stdout, reason = "the program's whole purpose")]
fn main() {
    print!("{}", broker::config::markdown());
}
