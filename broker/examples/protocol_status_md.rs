//! Prints docs/protocol-status.md.

#[expect(clippy::print_stdout, reason = "the program's whole purpose")]
fn main() {
    print!("{}", broker::protocol_status());
}
