//! A small assembler: eBPF instructions (RFC 9669) with labels, for programs that call kfuncs.

use std::os::fd::{AsRawFd as _, BorrowedFd};

/// A register. `R0` is what calls return; calls clobber `R1` to `R5`; `R10` is the frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Reg {
    /// The result of a call and of the program.
    R0 = 0,
    /// First argument.
    R1 = 1,
    /// Second argument.
    R2 = 2,
    /// Third argument.
    R3 = 3,
    /// Fourth argument.
    R4 = 4,
    /// Kept over calls.
    R6 = 6,
    /// Kept over calls.
    R7 = 7,
    /// Kept over calls.
    R8 = 8,
    /// The end of the stack, read-only.
    R10 = 10,
}

/// How much a load or store moves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Size {
    /// One byte.
    B = 0x10,
    /// Eight bytes.
    Dw = 0x18,
    /// Four bytes.
    W = 0x00,
}

/// What a jump asks of a register and a constant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Test {
    /// Equal.
    Eq = 0x10,
    /// Greater, unsigned.
    Gt = 0x20,
    /// Not equal.
    Ne = 0x50,
    /// Less or equal, unsigned.
    Le = 0xb0,
}

/// A place to jump to, forward only: so every program ends.
#[derive(Debug)]
pub struct Label(Vec<usize>);

impl Label {
    /// A place that is not known yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }
}

impl Default for Label {
    fn default() -> Self {
        Self::new()
    }
}

/// A program as it grows.
#[derive(Debug, Default)]
pub struct Asm {
    code: Vec<u64>,
    overlong: bool,
}

impl Asm {
    /// The instructions; none if a jump or an offset did not fit its field.
    pub fn finish(self) -> Option<Vec<u64>> {
        (!self.overlong).then_some(self.code)
    }

    /// `to = from`.
    pub fn mov(&mut self, to: Reg, from: Reg) {
        self.emit(0xbf, to, from as u8, 0, 0);
    }

    /// `to = value`, sign-extended.
    pub fn set(&mut self, to: Reg, value: i32) {
        self.emit(0xb7, to, 0, 0, value);
    }

    /// `to = value`, 64 bits.
    pub fn set64(&mut self, to: Reg, value: u64) {
        let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
        self.emit(0x18, to, 0, 0, i32::from_le_bytes([a, b, c, d]));
        self.word(i32::from_le_bytes([e, f, g, h]));
    }

    /// `to = map`, by its descriptor (BPF_PSEUDO_MAP_FD).
    pub fn map(&mut self, to: Reg, map: BorrowedFd<'_>) {
        self.emit(0x18, to, 1, 0, map.as_raw_fd());
        self.word(0);
    }

    /// `to += value`.
    pub fn add(&mut self, to: Reg, value: i32) {
        self.emit(0x07, to, 0, 0, value);
    }

    /// `to >>= bits`, unsigned.
    pub fn shift_right(&mut self, to: Reg, bits: i32) {
        self.emit(0x77, to, 0, 0, bits);
    }

    /// `to = *(size *)(base + offset)`.
    pub fn load(&mut self, size: Size, to: Reg, base: Reg, offset: i32) {
        let offset = self.offset(offset);
        self.emit(0x61 | size as u8, to, base as u8, offset, 0);
    }

    /// `*(size *)(base + offset) = from`.
    pub fn store(&mut self, size: Size, base: Reg, offset: i32, from: Reg) {
        let offset = self.offset(offset);
        self.emit(0x63 | size as u8, base, from as u8, offset, 0);
    }

    /// `*(size *)(base + offset) = value`.
    pub fn store_value(&mut self, size: Size, base: Reg, offset: i32, value: i32) {
        let offset = self.offset(offset);
        self.emit(0x62 | size as u8, base, 0, offset, value);
    }

    /// Calls a helper by number (bpf-helpers(7)).
    pub fn call(&mut self, helper: i32) {
        self.emit(0x85, Reg::R0, 0, 0, helper);
    }

    /// Calls a kernel function by its BTF id (BPF_PSEUDO_KFUNC_CALL).
    pub fn call_kernel(&mut self, id: i32) {
        self.emit(0x85, Reg::R0, 2, 0, id);
    }

    /// Jumps to `label` if `reg` stands so to `value`.
    pub fn jump_if(&mut self, reg: Reg, test: Test, value: i32, label: &mut Label) {
        label.0.push(self.code.len());
        self.emit(0x05 | test as u8, reg, 0, 0, value);
    }

    /// Jumps to `label` if `reg` and `other` differ.
    pub fn jump_if_differs(&mut self, reg: Reg, other: Reg, label: &mut Label) {
        label.0.push(self.code.len());
        self.emit(0x5d, reg, other as u8, 0, 0);
    }

    /// Jumps to `label`.
    pub fn jump(&mut self, label: &mut Label) {
        label.0.push(self.code.len());
        self.emit(0x05, Reg::R0, 0, 0, 0);
    }

    /// `label` is here.
    pub fn place(&mut self, label: Label) {
        let here = self.code.len();
        for at in label.0 {
            let distance = here.checked_sub(at + 1).and_then(|d| i16::try_from(d).ok());
            match (distance, self.code.get_mut(at)) {
                (Some(distance), Some(jump)) => {
                    let [low, high] = distance.to_le_bytes();
                    *jump |= u64::from(u16::from_le_bytes([low, high])) << 16;
                }
                (None, _) | (_, None) => self.overlong = true,
            }
        }
    }

    /// Ends the program with `R0`.
    pub fn exit(&mut self) {
        self.emit(0x95, Reg::R0, 0, 0, 0);
    }

    fn offset(&mut self, offset: i32) -> i16 {
        i16::try_from(offset).unwrap_or_else(|_too_far| {
            self.overlong = true;
            0
        })
    }

    fn emit(&mut self, code: u8, dst: Reg, src: u8, offset: i16, value: i32) {
        let [offset_low, offset_high] = offset.to_le_bytes();
        let [a, b, c, d] = value.to_le_bytes();
        let registers = (src << 4) | dst as u8;
        self.code.push(u64::from_le_bytes([
            code,
            registers,
            offset_low,
            offset_high,
            a,
            b,
            c,
            d,
        ]));
    }

    /// The second half of a 64-bit constant.
    fn word(&mut self, value: i32) {
        self.emit(0, Reg::R0, 0, 0, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_bytes_of_rfc_9669() {
        let mut asm = Asm::default();
        let mut end = Label::new();
        asm.jump_if(Reg::R8, Test::Le, 3, &mut end);
        asm.load(Size::B, Reg::R1, Reg::R7, 5);
        asm.store(Size::Dw, Reg::R10, -8, Reg::R1);
        asm.place(end);
        asm.set(Reg::R0, 1);
        asm.exit();
        let bytes: Vec<[u8; 8]> = asm
            .finish()
            .unwrap()
            .into_iter()
            .map(u64::to_le_bytes)
            .collect();
        assert_eq!(
            bytes,
            [
                [0xb5, 0x08, 2, 0, 3, 0, 0, 0],
                [0x71, 0x71, 5, 0, 0, 0, 0, 0],
                [0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0],
                [0xb7, 0x00, 0, 0, 1, 0, 0, 0],
                [0x95, 0x00, 0, 0, 0, 0, 0, 0],
            ]
        );
    }

    #[test]
    fn a_jump_that_does_not_fit_is_no_program() {
        let mut asm = Asm::default();
        let mut end = Label::new();
        asm.jump(&mut end);
        for _ in 0..40_000 {
            asm.set(Reg::R0, 0);
        }
        asm.place(end);
        assert!(asm.finish().is_none());
    }
}
