//! The compact header form (`RocketMQSerializable.java`).
//!
//! ```text
//! | int16 code | int8 language | int16 version | int32 opaque | int32 flag |
//! | int32 length, remark | int32 length, { int16 length, name, int32 length, value }* |
//! ```

use std::borrow::Cow;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{FIELD_LIMIT, FrameError};
use crate::{Command, ExtFields, HeaderEncoding, Language};

/// Reads a header. A text of length zero is absent, as in Java.
pub(super) fn decode(header: &[u8]) -> Result<Command, FrameError> {
    let mut rest = header;
    let code = rest.try_get_i16().map_err(|_short| FrameError::Binary("code"))?;
    let language = rest.try_get_u8().map_err(|_short| FrameError::Binary("language"))?;
    let version = rest.try_get_i16().map_err(|_short| FrameError::Binary("version"))?;
    let opaque = rest.try_get_i32().map_err(|_short| FrameError::Binary("opaque"))?;
    let flag = rest.try_get_i32().map_err(|_short| FrameError::Binary("flag"))?;
    let remark = long(&mut rest, "remark")?;
    let block = long(&mut rest, "extFields")?;
    Ok(Command {
        code: code.into(),
        language: Language::from_code(language),
        version: version.into(),
        opaque,
        flag,
        remark: (!remark.is_empty()).then(|| text(remark).into_owned()),
        ext_fields: if block.is_empty() { None } else { Some(fields(block)?) },
        encoding: HeaderEncoding::RocketMq,
        body: Bytes::new(),
    })
}

/// Reads the block of pairs. A pair without name or value is absent.
fn fields(mut block: &[u8]) -> Result<ExtFields, FrameError> {
    let mut fields = ExtFields::with_capacity(block.len());
    let mut count = 0;
    while !block.is_empty() {
        count += 1;
        if count > FIELD_LIMIT {
            return Err(FrameError::TooManyFields);
        }
        let length = block.try_get_u16().map_err(|_short| FrameError::Binary("extFields name"))?;
        let name = take(&mut block, length.into(), "extFields name")?;
        let value = long(&mut block, "extFields value")?;
        if !name.is_empty() && !value.is_empty() {
            fields.push(&text(name), &text(value));
        }
    }
    Ok(fields)
}

/// A field with an int32 length before it.
fn long<'a>(rest: &mut &'a [u8], field: &'static str) -> Result<&'a [u8], FrameError> {
    let length = rest.try_get_i32().map_err(|_short| FrameError::Binary(field))?;
    let length = usize::try_from(length).map_err(|_negative| FrameError::Binary(field))?;
    take(rest, length, field)
}

fn take<'a>(
    rest: &mut &'a [u8],
    length: usize,
    field: &'static str,
) -> Result<&'a [u8], FrameError> {
    let (head, tail) = rest.split_at_checked(length).ok_or(FrameError::Binary(field))?;
    *rest = tail;
    Ok(head)
}

/// Java replaces what is not UTF-8; so do we.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Whether every value has room in this form.
pub(super) fn fits(command: &Command) -> bool {
    i16::try_from(command.code).is_ok()
        && i16::try_from(command.version).is_ok()
        && command.ext_fields.iter().flat_map(ExtFields::iter).all(|(name, value)| {
            i16::try_from(name.len()).is_ok() && i32::try_from(value.len()).is_ok()
        })
}

/// Appends the header of a command that [`fits`].
pub(super) fn encode(command: &Command, out: &mut BytesMut) {
    out.put_i16(i16::try_from(command.code).unwrap_or_default());
    out.put_u8(command.language.code());
    out.put_i16(i16::try_from(command.version).unwrap_or_default());
    out.put_i32(command.opaque);
    out.put_i32(command.flag);
    put_long(command.remark.as_deref().unwrap_or_default(), out);
    let length_at = out.len();
    out.put_i32(0);
    for (name, value) in command.ext_fields.iter().flat_map(ExtFields::iter) {
        out.put_u16(u16::try_from(name.len()).unwrap_or_default());
        out.put_slice(name.as_bytes());
        put_long(value, out);
    }
    let length = u32::try_from(out.len() - length_at - 4).unwrap_or(u32::MAX);
    if let Some(mut field) = out.get_mut(length_at..length_at + 4) {
        field.put_u32(length);
    }
}

fn put_long(text: &str, out: &mut BytesMut) {
    out.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
    out.put_slice(text.as_bytes());
}
